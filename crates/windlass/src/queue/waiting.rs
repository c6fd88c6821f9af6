//! The external callers whose enqueue waits for a connection, by tenant. They are sent in `enqueue/batching.rs`.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::error::Result;
use crate::store::enqueue_as::ByCaller;

/// The maximum size of a batch: the maximum number of jobs in one row of the queue.
const MAX: usize = 64;

/// The callers that wait for a connection.
#[derive(Default)]
pub(crate) struct WaitingList {
    waiting: Mutex<HashMap<Uuid, VecDeque<Waiting>>>,
}

/// A waiting caller.
pub(crate) struct Waiting {
    pub(crate) caller: ByCaller,
    pub(crate) answer: oneshot::Sender<Result<Timestamp>>,
}

impl WaitingList {
    pub(crate) fn add(&self, tenant: Uuid, one: Waiting) {
        self.lock().entry(tenant).or_default().push_back(one);
    }

    /// The callers of a tenant that have waited longest. Canceled ones are removed.
    pub(crate) fn take(&self, tenant: Uuid) -> Vec<Waiting> {
        self.take_at_most(MAX, tenant)
    }

    pub(crate) fn take_one(&self, tenant: Uuid) -> Option<Waiting> {
        self.take_at_most(1, tenant).pop()
    }

    fn take_at_most(&self, most: usize, tenant: Uuid) -> Vec<Waiting> {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(&tenant) else { return Vec::new() };
        waiting.retain(|one| !one.answer.is_closed());
        let group = waiting.drain(..most.min(waiting.len())).collect();
        if waiting.is_empty() {
            all.remove(&tenant);
        }
        group
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, VecDeque<Waiting>>> {
        self.waiting.lock()
    }
}
