//! What this worker is running now: how many slots are taken, and how to tell each run to stop.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Why a run was told to stop. A later reason does not replace an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Canceled = 1,
    LeaseLost = 2,
    Shutdown = 3,
}

/// The switch that stops one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch {
    token: CancellationToken,
    reason: Arc<AtomicU8>,
}

impl Switch {
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub(crate) fn stop(&self, why: Stop) {
        let _ = self.reason.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Relaxed);
        self.token.cancel();
    }

    pub(crate) fn reason(&self) -> Option<Stop> {
        match self.reason.load(Ordering::Acquire) {
            1 => Some(Stop::Canceled),
            2 => Some(Stop::LeaseLost),
            3 => Some(Stop::Shutdown),
            _ => None,
        }
    }
}

/// Slots and switches. A slot is taken by a claim and freed when the attempt's end is written, so a worker never holds
/// more leases than it has slots.
#[derive(Debug)]
pub(crate) struct Running {
    capacity: usize,
    taken: AtomicUsize,
    freed: Notify,
    /// By job and attempt: a job that was lost may be claimed again while its old run is still ending.
    switches: Mutex<HashMap<(Uuid, i32), Switch>>,
}

impl Running {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, taken: AtomicUsize::new(0), freed: Notify::new(), switches: Mutex::default() }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.taken())
    }

    /// Resolves when slots were freed since the last call.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Takes a slot for each attempt.
    pub(crate) fn start(&self, attempts: impl Iterator<Item = (Uuid, i32)>) -> Vec<Switch> {
        let mut switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
        let started: Vec<Switch> = attempts
            .map(|attempt| {
                let switch = Switch::default();
                switches.insert(attempt, switch.clone());
                switch
            })
            .collect();
        self.taken.fetch_add(started.len(), Ordering::AcqRel);
        started
    }

    /// Frees the slots of attempts whose end is written.
    pub(crate) fn finish(&self, attempts: impl Iterator<Item = (Uuid, i32)>) {
        let mut count = 0;
        {
            let mut switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
            for attempt in attempts {
                switches.remove(&attempt);
                count += 1;
            }
        }
        self.taken.fetch_sub(count, Ordering::AcqRel);
        self.freed.notify_one();
    }

    pub(crate) fn cancel(&self, job: &Uuid) {
        for ((running, _), switch) in self.switches.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if running == job {
                switch.stop(Stop::Canceled);
            }
        }
    }

    pub(crate) fn stop_all(&self, why: Stop) {
        for switch in self.switches.lock().unwrap_or_else(PoisonError::into_inner).values() {
            switch.stop(why);
        }
    }
}
