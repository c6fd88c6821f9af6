//! The queue of password hashes, which take memory and time on purpose. It is short: a request beyond its end is rejected. A network
//! has a few slots at the same time. So that attackers cannot take all slots, networks with recent failures can use a part of
//! the queue, unknown networks a larger part, and networks with a successful sign-in all of it.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, MutexGuard};

use crate::http::{Problem, ProblemKind};

const SLOTS: usize = 64;
const OF_UNKNOWN: usize = 48;
const OF_FAILED: usize = 24;
const OF_A_NETWORK: usize = 4;
/// The maximum number of networks with a successful sign-in.
const MAX_KNOWN: usize = 50_000;

/// How much a network is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    HasFailed,
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct PasswordQueue {
    inner: Mutex<PasswordQueueState>,
}

#[derive(Debug, Default)]
struct PasswordQueueState {
    used: usize,
    of_networks: HashMap<String, usize>,
    known: HashSet<String>,
}

/// One slot, released when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Slot<'a> {
    queue: &'a PasswordQueue,
    network: String,
}

impl PasswordQueue {
    pub(super) fn take(&self, network: &str, trust: Trust) -> Result<Slot<'_>, Problem> {
        let mut inner = self.lock();
        let limit = match trust {
            _ if inner.known.contains(network) => SLOTS,
            Trust::Unknown => OF_UNKNOWN,
            Trust::HasFailed => OF_FAILED,
        };
        let of_network = inner.of_networks.get(network).copied().unwrap_or_default();
        if inner.used >= limit || of_network >= OF_A_NETWORK {
            let detail = "too many sign-ins in progress; try again in a few seconds";
            return Err(Problem::of(ProblemKind::Unavailable, detail).retry_after(2));
        }
        inner.used += 1;
        inner.of_networks.insert(network.to_owned(), of_network + 1);
        Ok(Slot { queue: self, network: network.to_owned() })
    }

    /// Records a successful sign-in from this network.
    pub(super) fn trust(&self, network: &str) {
        let mut inner = self.lock();
        if inner.known.len() >= MAX_KNOWN {
            inner.known.clear();
        }
        inner.known.insert(network.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, PasswordQueueState> {
        self.inner.lock()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut inner = self.queue.lock();
        inner.used -= 1;
        if let Some(used) = inner.of_networks.get_mut(&self.network) {
            *used -= 1;
            if *used == 0 {
                inner.of_networks.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OF_FAILED, OF_UNKNOWN, PasswordQueue, SLOTS, Trust};

    #[test]
    fn each_trust_level_has_its_part_of_the_queue_and_slots_are_released() {
        let queue = PasswordQueue::default();
        let take = |kind: &str, trust| -> Vec<_> {
            (0..200).filter_map(|n| queue.take(&format!("{kind}{n}"), trust).ok()).collect()
        };
        let failed = take("failed", Trust::HasFailed);
        assert_eq!(failed.len(), OF_FAILED);
        let unknown = take("unknown", Trust::Unknown);
        assert_eq!(unknown.len(), OF_UNKNOWN - OF_FAILED);
        (0..200).for_each(|n| queue.trust(&format!("known{n}")));
        assert_eq!(take("known", Trust::Unknown).len(), SLOTS - OF_UNKNOWN);
        drop((failed, unknown));
        let inner = queue.lock();
        assert_eq!((inner.used, inner.of_networks.len()), (0, 0));
    }
}
