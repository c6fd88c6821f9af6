//! Limits lookups of unknown credentials and links. Each costs a database transaction, and the caller is anonymous: so they have a
//! rate per network, and use few connections. A recently valid credential is not limited here, so an attacker cannot block known
//! callers.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::counts::Counts;
use super::network::networks;
use crate::http::{Problem, ProblemKind};

/// Failed lookups per minute: of an IPv4 address or an IPv6 /64, of a /56, and of a /48.
const OF_A_NETWORK: [u32; 3] = [120, 240, 480];
/// The number of concurrent lookups, and of those that may wait.
const AT_ONCE: usize = 2;
const WAITING: usize = 256;

#[derive(Debug)]
pub(crate) struct Lookups {
    counts: Counts,
    queue: Semaphore,
    permits: Semaphore,
}

/// One lookup in progress. It counts as failed unless `found` is called.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lookup<'a> {
    lookups: &'a Lookups,
    keys: Vec<u64>,
    _queued: SemaphorePermit<'a>,
    _permit: SemaphorePermit<'a>,
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            queue: Semaphore::new(AT_ONCE + WAITING),
            permits: Semaphore::new(AT_ONCE),
        }
    }
}

impl Lookups {
    /// Waits for a permit to look up something that may not exist.
    pub(crate) async fn begin(&self, address: Option<&str>) -> Result<Lookup<'_>, Problem> {
        let keys: Vec<u64> = networks(address).iter().map(|network| self.counts.key(network)).collect();
        let has_room =
            |counted: &[u32]| counted.iter().zip(OF_A_NETWORK).all(|(failed, limit)| *failed < limit);
        self.counts.begin(&keys, has_room).map_err(|wait| {
            let detail = "too many invalid credentials from your network address; try again later";
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(wait)
        })?;
        let busy = || {
            let detail = "too many credential lookups in progress; try again in a few seconds";
            Problem::of(ProblemKind::Unavailable, detail).retry_after(2)
        };
        let queued = self.queue.try_acquire().map_err(|_| busy())?;
        let permit = self.permits.acquire().await.map_err(|_| busy())?;
        Ok(Lookup { lookups: self, keys, _queued: queued, _permit: permit })
    }
}

impl Lookup<'_> {
    /// The lookup succeeded: it does not count.
    pub(crate) fn found(self) {
        self.lookups.counts.take_back(&self.keys);
    }
}

#[cfg(test)]
mod tests {
    use super::{Lookups, OF_A_NETWORK};

    #[tokio::test]
    async fn failed_lookups_of_a_network_are_limited_and_successful_ones_do_not_count() {
        let lookups = Lookups::default();
        for _ in 0..1000 {
            lookups.begin(Some("203.0.113.9")).await.unwrap().found();
        }
        let mut tried = 0;
        while lookups.begin(Some("203.0.113.9")).await.is_ok() {
            tried += 1;
        }
        assert_eq!(tried, OF_A_NETWORK[0]);
        assert!(lookups.begin(Some("198.51.100.1")).await.is_ok(), "another network");
    }
}
