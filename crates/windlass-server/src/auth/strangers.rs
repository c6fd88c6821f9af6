//! Lookups of credentials and links that nobody has shown before. Each costs the database a transaction, and whoever makes them up is
//! never known: so they have a rate by network, and few connections at once. A credential that was valid a moment ago does not
//! come here, so strangers keep nobody out who is known.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::counts::Counts;
use super::network::networks;
use crate::http::{Problem, ProblemKind};

/// Lookups a minute that find nobody: of an IPv4 address or an IPv6 /64, of a /56, and of a /48.
const OF_A_NETWORK: [u32; 3] = [120, 240, 480];
/// Connections that such lookups hold together, and how many of them wait.
const AT_ONCE: usize = 2;
const WAITING: usize = 256;

#[derive(Debug)]
pub(crate) struct Strangers {
    counts: Counts,
    line: Semaphore,
    turns: Semaphore,
}

/// One lookup under way. It counts as one that found nobody unless it is told otherwise.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lookup<'a> {
    strangers: &'a Strangers,
    keys: Vec<u64>,
    _line: SemaphorePermit<'a>,
    _turn: SemaphorePermit<'a>,
}

impl Default for Strangers {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            line: Semaphore::new(AT_ONCE + WAITING),
            turns: Semaphore::new(AT_ONCE),
        }
    }
}

impl Strangers {
    /// Waits for a turn to look for something that may not be there.
    pub(crate) async fn begin(&self, address: Option<&str>) -> Result<Lookup<'_>, Problem> {
        let keys: Vec<u64> = networks(address).iter().map(|network| self.counts.key(network)).collect();
        let has_room =
            |counted: &[u32]| counted.iter().zip(OF_A_NETWORK).all(|(failed, most)| *failed < most);
        self.counts.begin(&keys, has_room).map_err(|wait| {
            let detail = "too many unknown credentials from your network address; wait and try again";
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(wait)
        })?;
        let busy = || {
            let detail = "too many credentials are being looked up at the moment; try again in a few seconds";
            Problem::of(ProblemKind::Unavailable, detail).retry_after(2)
        };
        let line = self.line.try_acquire().map_err(|_| busy())?;
        let turn = self.turns.acquire().await.map_err(|_| busy())?;
        Ok(Lookup { strangers: self, keys, _line: line, _turn: turn })
    }
}

impl Lookup<'_> {
    /// It found what it looked for: it does not count.
    pub(crate) fn found(self) {
        self.strangers.counts.take_back(&self.keys);
    }
}

#[cfg(test)]
mod tests {
    use super::{OF_A_NETWORK, Strangers};

    #[tokio::test]
    async fn a_network_finds_nobody_so_often_and_those_who_are_found_do_not_count() {
        let strangers = Strangers::default();
        for _ in 0..1000 {
            strangers.begin(Some("203.0.113.9")).await.unwrap().found();
        }
        let mut tried = 0;
        while strangers.begin(Some("203.0.113.9")).await.is_ok() {
            tried += 1;
        }
        assert_eq!(tried, OF_A_NETWORK[0]);
        assert!(strangers.begin(Some("198.51.100.1")).await.is_ok(), "another network");
    }
}
