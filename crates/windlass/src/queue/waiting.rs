//! The callers from outside whose enqueue waits for a connection, by tenant. How they are sent is in `enqueue/batching.rs`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::error::Result;
use crate::store::enqueue_as::ByCaller;

/// The most that go together: as many as may stand in one row of the line.
const MOST: usize = 64;

/// Those who wait for a connection.
#[derive(Default)]
pub(crate) struct WaitingList {
    waiting: Mutex<HashMap<Uuid, VecDeque<Waiting>>>,
}

/// One of them.
pub(crate) struct Waiting {
    pub(crate) caller: ByCaller,
    pub(crate) answer: oneshot::Sender<Result<Timestamp>>,
}

impl WaitingList {
    pub(crate) fn add(&self, tenant: Uuid, one: Waiting) {
        self.lock().entry(tenant).or_default().push_back(one);
    }

    /// Those of a tenant who have waited longest. Whoever has hung up is left out.
    pub(crate) fn take(&self, tenant: Uuid) -> Vec<Waiting> {
        self.take_at_most(MOST, tenant)
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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
