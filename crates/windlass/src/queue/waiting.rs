//! The callers from outside whose enqueue waits for a connection. How they are sent is in `enqueue/batching.rs`.

use std::collections::VecDeque;
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
    waiting: Mutex<VecDeque<Waiting>>,
}

/// One of them.
pub(crate) struct Waiting {
    pub(crate) tenant: Uuid,
    pub(crate) caller: ByCaller,
    pub(crate) answer: oneshot::Sender<Result<Timestamp>>,
}

impl WaitingList {
    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one who has waited longest, and those of the same tenant behind them. Whoever has hung up is left out.
    pub(crate) fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.lock();
        waiting.retain(|one| !one.answer.is_closed());
        let Some(tenant) = waiting.front().map(|first| first.tenant) else { return Vec::new() };
        let mut group = Vec::new();
        let mut rest = VecDeque::with_capacity(waiting.len());
        for one in waiting.drain(..) {
            if one.tenant == tenant && group.len() < MOST {
                group.push(one);
            } else {
                rest.push_back(one);
            }
        }
        *waiting = rest;
        group
    }
}
