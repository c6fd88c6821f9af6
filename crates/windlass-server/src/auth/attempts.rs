//! How often somebody may try a password or a token. Guessing must take years, and a stranger must not be able to keep
//! the owner of an account out.
//!
//! Failures are counted by source network, and by source network and account. Those of one network never stop another
//! one. An account that fails often from everywhere is being guessed at: then each network has one failure for it, and a
//! network without any is still let through. An attempt counts from its beginning, so that many at once are held to the same
//! number; one that succeeds is taken back.

use super::counts::Counts;
use super::line::{Line, Place, Standing};
use super::network::{networks, whole_network};
use crate::http::{Problem, ProblemKind};

/// Of an IPv4 address or an IPv6 /64, of a /56, and of a /48.
const OF_A_NETWORK: [u32; 3] = [30, 60, 120];
const OF_A_NETWORK_AT_AN_ACCOUNT: u32 = 10;
/// From here on an account is being guessed at.
const OF_AN_ACCOUNT: u32 = 100;

#[derive(Debug, Default)]
pub(crate) struct Attempts {
    counts: Counts,
    line: Line,
}

/// One attempt under way. It counts as a failure unless it is told that it succeeded.
#[derive(Debug)]
#[must_use]
pub(crate) struct Attempt<'a> {
    attempts: &'a Attempts,
    keys: Vec<u64>,
    network: String,
    has_failed: bool,
}

impl Attempts {
    /// Begins an attempt at an account (an e-mail address or a token's id), or refuses it.
    pub(crate) fn begin(&self, address: Option<&str>, account: &str) -> Result<Attempt<'_>, Problem> {
        let networks = networks(address);
        let mut keys: Vec<u64> =
            networks.iter().map(|network| self.counts.key(("network", network))).collect();
        keys.push(self.counts.key(("both", networks.first(), account)));
        keys.push(self.counts.key(("account", account)));
        let (mut has_failed, of_networks) = (false, networks.len());
        let begun = self.counts.begin(&keys, |counted| {
            let (of_networks, rest) = counted.split_at(of_networks);
            has_failed = of_networks[0] > 0;
            let of_account = rest[1];
            let most_of_both = if of_account >= OF_AN_ACCOUNT { 1 } else { OF_A_NETWORK_AT_AN_ACCOUNT };
            of_networks.iter().zip(OF_A_NETWORK).all(|(failed, most)| *failed < most)
                && rest[0] < most_of_both
        });
        match begun {
            Ok(()) => Ok(Attempt { attempts: self, keys, network: whole_network(address), has_failed }),
            Err(wait) => {
                let detail = "too many failed attempts from your network address; wait and try again";
                Err(Problem::of(ProblemKind::TooManyRequests, detail).retry_after(wait))
            }
        }
    }

    /// A place in the line of passwords that are compared or hashed, for whoever holds a link.
    pub(crate) fn place(&self, address: Option<&str>) -> Result<Place<'_>, Problem> {
        self.line.take(&whole_network(address), Standing::Unknown)
    }
}

impl<'a> Attempt<'a> {
    /// It was the right password: it does not count, and its network is known from now on.
    pub(crate) fn succeeded(self) {
        self.attempts.line.welcome(&self.network);
        self.attempts.counts.take_back(&self.keys);
    }

    /// A place in the line of passwords that are compared. If there is none, nothing is compared, and the attempt does not count.
    pub(crate) fn place(self) -> Result<(Self, Place<'a>), Problem> {
        let standing = if self.has_failed { Standing::HasFailed } else { Standing::Unknown };
        match self.attempts.line.take(&self.network, standing) {
            Ok(place) => Ok((self, place)),
            Err(problem) => {
                self.attempts.counts.take_back(&self.keys);
                Err(problem)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, OF_A_NETWORK, OF_A_NETWORK_AT_AN_ACCOUNT, OF_AN_ACCOUNT};

    fn fail(attempts: &Attempts, address: &str, account: &str) -> bool {
        attempts.begin(Some(address), account).is_ok()
    }

    #[test]
    fn failures_of_one_address_do_not_stop_another_one() {
        let attempts = Attempts::default();
        let tried = (0..50).filter(|_| fail(&attempts, "203.0.113.9", "ada@a.test")).count();
        assert_eq!(tried as u32, OF_A_NETWORK_AT_AN_ACCOUNT);
        assert!(fail(&attempts, "203.0.113.9", "grace@a.test"), "another account from there");
        assert!(fail(&attempts, "198.51.100.1", "ada@a.test"), "the same account from elsewhere");
    }

    #[test]
    fn an_address_that_tries_many_accounts_is_stopped() {
        let attempts = Attempts::default();
        let tried = (0..200).filter(|n| fail(&attempts, "203.0.113.9", &format!("p{n}@a.test"))).count();
        assert_eq!(tried as u32, OF_A_NETWORK[0]);
        let one_64 = |n: usize| format!("2001:db8:1:2::{n:x}");
        let one_56 = |n: usize| format!("2001:db8:1:{:x}::1", n % 256);
        let one_48 = |n: usize| format!("2001:db8:1:{n:x}00::1");
        let networks: [&dyn Fn(usize) -> String; 3] = [&one_64, &one_56, &one_48];
        for (network, most) in networks.into_iter().zip(OF_A_NETWORK) {
            let attempts = Attempts::default();
            let tried = (0..200).filter(|n| fail(&attempts, &network(*n), &format!("p{n}@a.test"))).count();
            assert_eq!(tried as u32, most, "a network of IPv6 addresses is counted as one: {}", network(1));
        }
    }

    #[test]
    fn an_account_that_is_guessed_at_from_everywhere_still_lets_a_clean_address_in() {
        let attempts = Attempts::default();
        for n in 0..OF_AN_ACCOUNT {
            assert!(fail(&attempts, &format!("10.0.{}.{}", n / 200, n % 200), "ada@a.test"));
        }
        assert!(!fail(&attempts, "10.0.0.0", "ada@a.test"), "one failure there is enough now");
        attempts.begin(Some("198.51.100.1"), "ada@a.test").unwrap().succeeded();
        attempts.begin(Some("198.51.100.1"), "ada@a.test").unwrap().succeeded();
    }

    #[test]
    fn what_succeeds_does_not_count() {
        let attempts = Attempts::default();
        for _ in 0..1000 {
            attempts.begin(Some("203.0.113.9"), "ada@a.test").unwrap().succeeded();
        }
    }

    /// M1: strangers with many networks kept the line full, and nobody could sign in.
    #[test]
    fn networks_that_fail_leave_places_to_those_that_do_not() {
        let attempts = Attempts::default();
        let begin = |address: &str, account: usize| {
            attempts.begin(Some(address), &format!("p{account}@a.test")).unwrap()
        };
        begin("198.51.100.1", 0).succeeded();
        let strangers: Vec<String> = (0..200).map(|n| format!("10.1.0.{n}")).collect();
        strangers.iter().for_each(|address| drop(begin(address, 1)));
        let tries: Vec<_> = strangers.iter().map(|address| begin(address, 2)).collect();
        let held: Vec<_> = tries.into_iter().filter_map(|attempt| attempt.place().ok()).collect();
        assert!(!held.is_empty() && held.len() < 200);
        let clean: Vec<_> = (0..200).map(|n| begin(&format!("10.2.0.{n}"), 3)).collect();
        let more: Vec<_> = clean.into_iter().filter_map(|attempt| attempt.place().ok()).collect();
        assert!(!more.is_empty() && more.len() < 200, "networks without a failure still find places");
        assert!(begin("198.51.100.1", 4).place().is_ok(), "and so does one from which somebody signed in");
        drop((held, more));
        let one: Vec<_> = (0..8).map(|n| begin(&format!("2001:db8:1:{n:x}00::1"), 5)).collect();
        let places: Vec<_> = one.into_iter().filter_map(|attempt| attempt.place().ok()).collect();
        assert_eq!(places.len(), 4, "a network has so many at once");
    }

    #[test]
    fn an_attempt_that_finds_no_place_does_not_count() {
        let attempts = Attempts::default();
        let begin = || attempts.begin(Some("203.0.113.9"), "ada@a.test").unwrap();
        let held: Vec<_> = (0..4).map(|_| begin().place().unwrap()).collect();
        for _ in 0..OF_A_NETWORK[0] {
            assert!(begin().place().is_err(), "nothing is compared");
        }
        drop(held);
        assert!(begin().place().is_ok());
    }
}
