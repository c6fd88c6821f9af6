//! Detects a request that takes a second connection while it holds one.
//!
//! With a pool of n connections, n such requests at once would hold all of them and wait for each other forever. A test
//! with one request and two connections does not show this, so debug builds panic at the second connection. A request
//! runs in one task; the tasks that it spawns hold their own connections and are not awaited while one is held.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{self, Id};

/// The tasks that hold a connection of one pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holders(Arc<Mutex<HashSet<Id>>>);

impl Holders {
    /// Panics if the current task holds a connection.
    pub(crate) fn refuse_second(&self) {
        let holds = task::try_id().is_some_and(|task| self.lock().contains(&task));
        assert!(!holds, "a request takes a second connection while it holds one");
    }

    /// Records that the current task holds a connection, until the returned value is dropped.
    pub(crate) fn hold(&self) -> Option<HeldConnection> {
        let task = task::try_id()?;
        self.lock().insert(task);
        Some(HeldConnection { holders: self.clone(), task })
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashSet<Id>> {
        self.0.lock()
    }
}

/// A connection that a task holds.
pub(crate) struct HeldConnection {
    holders: Holders,
    task: Id,
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        self.holders.lock().remove(&self.task);
    }
}
