//! Limits failed attempts to use a password or a token. Guessing must take years, and an attacker must not be able to lock out the
//! owner of an account.
//!
//! Failures are counted by source network, and by source network and account. Those of one network never block another
//! one. An account with many failures from many networks is under attack: then each network may fail once for it, so
//! that a network without a failure can still sign in. An attempt counts from its start, so that concurrent attempts
//! have the same limit; a successful one is subtracted.

use super::counts::{Counted, Counts};
use super::network::{networks, whole_network};
use super::password_queue::{PasswordQueue, Slot, Trust};
use crate::http::{Problem, ProblemKind};

/// Failures of an IPv4 address or an IPv6 /64, of a /56, and of a /48.
const OF_A_NETWORK: [u32; 3] = [30, 60, 120];
const OF_A_NETWORK_AT_AN_ACCOUNT: u32 = 10;
/// The number of failures above which an account is considered to be under attack.
const OF_AN_ACCOUNT: u32 = 100;

#[derive(Debug, Default)]
pub(crate) struct SignInAttempts {
    counts: Counts,
    passwords: PasswordQueue,
}

/// One attempt in progress. It counts as a failure unless it has succeeded or could not be decided.
#[derive(Debug)]
#[must_use]
pub(crate) struct SignInAttempt<'a> {
    attempts: &'a SignInAttempts,
    counted: Counted,
    network: String,
    has_failed: bool,
}

impl SignInAttempts {
    /// Starts an attempt for an account (an email address or the id of a token), or rejects it.
    pub(crate) fn begin(&self, address: Option<&str>, account: &str) -> Result<SignInAttempt<'_>, Problem> {
        let networks = networks(address);
        let mut keys: Vec<u64> =
            networks.iter().map(|network| self.counts.key(("network", network))).collect();
        keys.push(self.counts.key(("both", networks.first(), account)));
        keys.push(self.counts.key(("account", account)));
        let (mut has_failed, of_networks) = (false, networks.len());
        let begun = self.counts.begin(keys, |counted| {
            let (of_networks, rest) = counted.split_at(of_networks);
            has_failed = of_networks[0] > 0;
            let of_account = rest[1];
            let most_of_both = if of_account >= OF_AN_ACCOUNT { 1 } else { OF_A_NETWORK_AT_AN_ACCOUNT };
            of_networks.iter().zip(OF_A_NETWORK).all(|(failed, most)| *failed < most)
                && rest[0] < most_of_both
        });
        match begun {
            Ok(counted) => {
                Ok(SignInAttempt { attempts: self, counted, network: whole_network(address), has_failed })
            }
            Err(wait) => {
                let detail = "too many failed attempts from your network address; try again later";
                Err(Problem::of(ProblemKind::TooManyRequests, detail).retry_after(wait))
            }
        }
    }

    /// A slot in the queue of password hashes, for the holder of a link.
    pub(crate) fn slot(&self, address: Option<&str>) -> Result<Slot<'_>, Problem> {
        self.passwords.take(&whole_network(address), Trust::Unknown)
    }
}

impl<'a> SignInAttempt<'a> {
    /// The password was correct: the attempt does not count, and its network is now known.
    pub(crate) fn succeeded(self) {
        self.attempts.passwords.trust(&self.network);
        self.undo();
    }

    /// The attempt was not decided, because the server could not: it does not count.
    pub(crate) fn undo(self) {
        self.attempts.counts.take_back(&self.counted);
    }

    /// Continues after a step that does not decide the attempt. If the step failed, the attempt does not count.
    pub(crate) fn after<T, E: Into<Problem>>(self, step: Result<T, E>) -> Result<(Self, T), Problem> {
        match step {
            Ok(value) => Ok((self, value)),
            Err(error) => {
                self.undo();
                Err(error.into())
            }
        }
    }

    /// A slot in the queue of password hashes. If there is none, nothing is compared, and the attempt does not count.
    pub(crate) fn slot(self) -> Result<(Self, Slot<'a>), Problem> {
        let trust = if self.has_failed { Trust::HasFailed } else { Trust::Unknown };
        let slot = self.attempts.passwords.take(&self.network, trust);
        self.after(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        OF_A_NETWORK, OF_A_NETWORK_AT_AN_ACCOUNT, OF_AN_ACCOUNT, Problem, ProblemKind, SignInAttempts,
    };

    fn fail(attempts: &SignInAttempts, address: &str, account: &str) -> bool {
        attempts.begin(Some(address), account).is_ok()
    }

    #[test]
    fn failures_of_one_address_do_not_block_another() {
        let attempts = SignInAttempts::default();
        let tried = (0..50).filter(|_| fail(&attempts, "203.0.113.9", "ada@a.test")).count();
        assert_eq!(tried as u32, OF_A_NETWORK_AT_AN_ACCOUNT);
        assert!(fail(&attempts, "203.0.113.9", "grace@a.test"), "another account from there");
        assert!(fail(&attempts, "198.51.100.1", "ada@a.test"), "the same account from another network");
    }

    #[test]
    fn an_address_that_tries_many_accounts_is_blocked() {
        let attempts = SignInAttempts::default();
        let tried = (0..200).filter(|n| fail(&attempts, "203.0.113.9", &format!("p{n}@a.test"))).count();
        assert_eq!(tried as u32, OF_A_NETWORK[0]);
        let one_64 = |n: usize| format!("2001:db8:1:2::{n:x}");
        let one_56 = |n: usize| format!("2001:db8:1:{:x}::1", n % 256);
        let one_48 = |n: usize| format!("2001:db8:1:{n:x}00::1");
        let networks: [&dyn Fn(usize) -> String; 3] = [&one_64, &one_56, &one_48];
        for (network, most) in networks.into_iter().zip(OF_A_NETWORK) {
            let attempts = SignInAttempts::default();
            let tried = (0..200).filter(|n| fail(&attempts, &network(*n), &format!("p{n}@a.test"))).count();
            assert_eq!(tried as u32, most, "a network of IPv6 addresses is counted as one: {}", network(1));
        }
    }

    #[test]
    fn an_account_under_attack_still_accepts_a_network_without_failures() {
        let attempts = SignInAttempts::default();
        for n in 0..OF_AN_ACCOUNT {
            assert!(fail(&attempts, &format!("10.0.{}.{}", n / 200, n % 200), "ada@a.test"));
        }
        assert!(!fail(&attempts, "10.0.0.0", "ada@a.test"), "one failure there is enough now");
        attempts.begin(Some("198.51.100.1"), "ada@a.test").unwrap().succeeded();
        attempts.begin(Some("198.51.100.1"), "ada@a.test").unwrap().succeeded();
    }

    #[test]
    fn successful_attempts_do_not_count() {
        let attempts = SignInAttempts::default();
        for _ in 0..1000 {
            attempts.begin(Some("203.0.113.9"), "ada@a.test").unwrap().succeeded();
        }
    }

    /// Attackers with many networks must not be able to fill the queue and lock out other users.
    #[test]
    fn failing_networks_leave_slots_to_others() {
        let attempts = SignInAttempts::default();
        let begin = |address: &str, account: usize| {
            attempts.begin(Some(address), &format!("p{account}@a.test")).unwrap()
        };
        begin("198.51.100.1", 0).succeeded();
        let attackers: Vec<String> = (0..200).map(|n| format!("10.1.0.{n}")).collect();
        attackers.iter().for_each(|address| drop(begin(address, 1)));
        let tries: Vec<_> = attackers.iter().map(|address| begin(address, 2)).collect();
        let held: Vec<_> = tries.into_iter().filter_map(|attempt| attempt.slot().ok()).collect();
        assert!(!held.is_empty() && held.len() < 200);
        let clean: Vec<_> = (0..200).map(|n| begin(&format!("10.2.0.{n}"), 3)).collect();
        let more: Vec<_> = clean.into_iter().filter_map(|attempt| attempt.slot().ok()).collect();
        assert!(!more.is_empty() && more.len() < 200, "networks without a failure still get slots");
        assert!(begin("198.51.100.1", 4).slot().is_ok(), "and so does one with a successful sign-in");
        drop((held, more));
        let one: Vec<_> = (0..8).map(|n| begin(&format!("2001:db8:1:{n:x}00::1"), 5)).collect();
        let slots: Vec<_> = one.into_iter().filter_map(|attempt| attempt.slot().ok()).collect();
        assert_eq!(slots.len(), 4, "the limit of one network");
    }

    /// A database that is down locks nobody out.
    #[test]
    fn an_attempt_that_could_not_be_decided_does_not_count() {
        let attempts = SignInAttempts::default();
        for _ in 0..1000 {
            let attempt = attempts.begin(Some("203.0.113.9"), "ada@a.test").unwrap();
            let failed: Result<(), _> = Err(Problem::of(ProblemKind::Unavailable, "the database is down"));
            assert_eq!(attempt.after(failed).unwrap_err().kind, ProblemKind::Unavailable);
        }
    }

    #[test]
    fn an_attempt_that_gets_no_slot_does_not_count() {
        let attempts = SignInAttempts::default();
        let begin = || attempts.begin(Some("203.0.113.9"), "ada@a.test").unwrap();
        let held: Vec<_> = (0..4).map(|_| begin().slot().unwrap()).collect();
        for _ in 0..OF_A_NETWORK[0] {
            assert!(begin().slot().is_err(), "nothing is compared");
        }
        drop(held);
        assert!(begin().slot().is_ok());
    }
}
