//! Limits lookups of unknown credentials and links. Each costs a database transaction, and the caller is anonymous: so they have a
//! rate per network, and use few connections. A recently valid credential is not limited here, so an attacker cannot block known
//! callers.

use tokio::sync::{Semaphore, SemaphorePermit};
use windlass::internals::{SlotGuard, Slots};

use super::counts::Counts;
use super::network::{networks, whole_network};
use crate::http::{Problem, ProblemKind};

/// Failed lookups per minute: of an IPv4 address or an IPv6 /64, of a /56, and of a /48.
const OF_A_NETWORK: [u32; 3] = [120, 240, 480];
/// The number of concurrent lookups, of those that may wait, and of those of one network.
const AT_ONCE: usize = 2;
const WAITING: usize = 256;
const WAITING_OF_A_NETWORK: usize = WAITING / 2;

#[derive(Debug)]
pub(crate) struct Lookups {
    failures: Counts,
    pending: Slots<String>,
    queue: Semaphore,
    permits: Semaphore,
}

/// One lookup in progress. It counts only if it was done and found nothing: a full queue, a database that does not respond or a
/// caller that disconnects say nothing about the credential.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lookup<'a> {
    lookups: &'a Lookups,
    keys: Vec<u64>,
    _pending: SlotGuard<String>,
    _queued: SemaphorePermit<'a>,
    _permit: SemaphorePermit<'a>,
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            failures: Counts::default(),
            pending: Slots::new(WAITING_OF_A_NETWORK),
            queue: Semaphore::new(AT_ONCE + WAITING),
            permits: Semaphore::new(AT_ONCE),
        }
    }
}

impl Lookups {
    /// Waits for a permit to look up something that may not exist.
    pub(crate) async fn begin(&self, address: Option<&str>) -> Result<Lookup<'_>, Problem> {
        let keys: Vec<u64> = networks(address).iter().map(|network| self.failures.key(network)).collect();
        self.check(&keys)?;
        let busy = || {
            let detail = "too many credential lookups in progress; try again in a few seconds";
            Problem::of(ProblemKind::Unavailable, detail).retry_after(2)
        };
        let pending = self.pending.take(whole_network(address), 1).ok_or_else(busy)?;
        let queued = self.queue.try_acquire().map_err(|_| busy())?;
        let permit = self.permits.acquire().await.map_err(|_| busy())?;
        // Those before it may have failed meanwhile.
        self.check(&keys)?;
        Ok(Lookup { lookups: self, keys, _pending: pending, _queued: queued, _permit: permit })
    }

    fn check(&self, keys: &[u64]) -> Result<(), Problem> {
        let has_room =
            |counted: &[u32]| counted.iter().zip(OF_A_NETWORK).all(|(failed, limit)| *failed < limit);
        self.failures.check(keys, has_room).map_err(|wait| {
            let detail = "too many invalid credentials from your network address; try again later";
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(wait)
        })
    }
}

impl Lookup<'_> {
    /// The lookup was done and found nothing valid.
    pub(crate) fn failed(self) {
        self.lookups.failures.add(&self.keys);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    use super::{Lookup, Lookups, OF_A_NETWORK, WAITING_OF_A_NETWORK};
    use crate::http::ProblemKind;

    const HERE: Option<&str> = Some("203.0.113.9");

    #[tokio::test]
    async fn failed_lookups_of_a_network_are_limited_and_others_do_not_count() {
        let lookups = Lookups::default();
        for _ in 0..1000 {
            drop(lookups.begin(HERE).await.unwrap());
        }
        let mut tried = 0;
        while let Ok(lookup) = lookups.begin(HERE).await {
            lookup.failed();
            tried += 1;
        }
        assert_eq!(tried, OF_A_NETWORK[0]);
        assert!(lookups.begin(Some("198.51.100.1")).await.is_ok(), "another network");
    }

    /// as many workers behind one address after a restart.
    #[tokio::test]
    async fn lookups_that_wait_do_not_count_as_invalid_credentials() {
        let lookups = Lookups::default();
        let held = [lookups.begin(HERE).await.unwrap(), lookups.begin(HERE).await.unwrap()];
        let mut waiting = Vec::new();
        for _ in 0..500 {
            let mut lookup = Box::pin(lookups.begin(HERE));
            match lookup.as_mut().now_or_never() {
                None => waiting.push(lookup),
                Some(done) => assert_eq!(done.unwrap_err().kind, ProblemKind::Unavailable),
            }
        }
        assert_eq!(waiting.len() + held.len(), WAITING_OF_A_NETWORK, "a network has a part of the queue");
        drop(held);
        let done = join_all(waiting.into_iter().map(|lookup| lookup.map(|done| done.map(drop)))).await;
        assert!(done.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn lookups_that_have_waited_are_refused_if_those_before_them_have_failed() {
        let lookups = Lookups::default();
        let held = [lookups.begin(HERE).await.unwrap(), lookups.begin(HERE).await.unwrap()];
        let mut waiting: Vec<_> =
            (held.len()..WAITING_OF_A_NETWORK).map(|_| Box::pin(lookups.begin(HERE))).collect();
        for lookup in &mut waiting {
            assert!(lookup.as_mut().now_or_never().is_none());
        }
        drop(held);
        let done =
            join_all(waiting.into_iter().map(|lookup| lookup.map(|done| done.map(Lookup::failed)))).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), OF_A_NETWORK[0] as usize);
    }
}
