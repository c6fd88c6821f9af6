//! The jobs that this worker holds: how many slots are taken, whose turn it is to run, and the switches that stop each
//! run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::model::job::claimed::Fence;

/// Why a run was requested to stop. A later reason does not replace an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Canceled = 1,
    LeaseLost = 2,
    Shutdown = 3,
}

/// The switch that stops one run. Lighter than a cancellation token, because every job has one and few are ever used; a
/// token is created for a handler that requests one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch {
    state: Arc<SwitchState>,
}

#[derive(Debug, Default)]
struct SwitchState {
    reason: AtomicU8,
    changed: Notify,
    token: OnceLock<CancellationToken>,
}

impl Switch {
    pub(crate) fn stop(&self, why: Stop) {
        let _ = self.state.reason.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Relaxed);
        self.state.changed.notify_waiters();
        if let Some(token) = self.state.token.get() {
            token.cancel();
        }
    }

    pub(crate) fn reason(&self) -> Option<Stop> {
        match self.state.reason.load(Ordering::Acquire) {
            1 => Some(Stop::Canceled),
            2 => Some(Stop::LeaseLost),
            3 => Some(Stop::Shutdown),
            _ => None,
        }
    }

    /// Resolves once the run should stop.
    pub(crate) async fn stopped(&self) -> Stop {
        loop {
            let changed = self.state.changed.notified();
            if let Some(why) = self.reason() {
                return why;
            }
            changed.await;
        }
    }

    pub(crate) fn token(&self) -> CancellationToken {
        let token = self.state.token.get_or_init(CancellationToken::new).clone();
        // It may have been stopped while the token was created.
        if self.reason().is_some() {
            token.cancel();
        }
        token
    }
}

/// The slot of one running attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// The number of held jobs of all workers that share it: a worker that takes over from another uses only the slots that
/// the other leaves free.
#[derive(Debug, Default)]
pub(crate) struct HeldJobs {
    taken: AtomicUsize,
    of_tenants: Mutex<HashMap<Uuid, usize>>,
    freed: Notify,
}

impl HeldJobs {
    fn of_tenants(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.of_tenants.lock()
    }

    fn free(&self, count: usize) {
        if count > 0 {
            self.taken.fetch_sub(count, Ordering::AcqRel);
            self.freed.notify_one();
        }
    }
}

/// Slots for jobs that are about to be claimed. Unused ones are released on drop.
#[derive(Debug)]
pub(crate) struct Reserved {
    places: Arc<HeldJobs>,
    count: usize,
}

impl Reserved {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Marks slots as used: their runs release them.
    fn used(&mut self, count: usize) {
        self.count = self.count.saturating_sub(count);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.places.free(self.count);
    }
}

/// The number of a worker's slots that each tenant may still get, while slots are assigned.
///
/// If more than one tenant uses the definitions of a worker, a quarter of its slots, and at least one, is reserved from
/// each of them. This applies even while only one of them has work: otherwise its long jobs would hold every slot when
/// the first job of another arrives, and that would wait until one of them ends. A worker with one slot reserves none.
pub(crate) struct TenantShares<'a> {
    taken: MutexGuard<'a, HashMap<Uuid, usize>>,
    granted: HashMap<Uuid, usize>,
    most: usize,
}

impl TenantShares<'_> {
    /// Grants a tenant as many of these slots as it may still have.
    pub(crate) fn take(&mut self, tenant: Uuid, wanted: usize) -> usize {
        let granted = self.granted.entry(tenant).or_default();
        let taken = self.taken.get(&tenant).copied().unwrap_or(0) + *granted;
        let count = wanted.min(self.most.saturating_sub(taken));
        *granted += count;
        count
    }
}

/// Slots and switches. A slot is taken before a claim and freed when the attempt's end is written; a job runs while it
/// has a turn, and there are as many turns as the worker's concurrency. Slots beyond the turns are jobs whose end is
/// being written and prefetched jobs.
#[derive(Debug)]
pub(crate) struct Running {
    capacity: usize,
    turns: Semaphore,
    taken: AtomicUsize,
    ended: AtomicUsize,
    places: Arc<HeldJobs>,
    slots: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    places: Vec<Option<(Fence, Switch)>>,
    free: Vec<usize>,
}

impl Running {
    pub(crate) fn new(capacity: usize, places: Arc<HeldJobs>) -> Self {
        Self {
            capacity,
            turns: Semaphore::new(capacity),
            taken: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            places,
            slots: Mutex::default(),
        }
    }

    /// Returns the state that this worker shares with one that takes over.
    pub(crate) fn places(&self) -> &Arc<HeldJobs> {
        &self.places
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Returns how many slots are reserved from a tenant that shares the worker.
    pub(crate) fn kept_free(&self) -> usize {
        if self.capacity > 1 { (self.capacity / 4).max(1) } else { 0 }
    }

    /// Returns the slots that tenants may still have, if they share the worker.
    pub(crate) fn shares(&self, is_shared: bool) -> TenantShares<'_> {
        let most = if is_shared { self.capacity - self.kept_free() } else { usize::MAX };
        TenantShares { taken: self.places.of_tenants(), granted: HashMap::new(), most }
    }

    /// Returns how many jobs are running.
    pub(crate) fn running(&self) -> usize {
        self.capacity.saturating_sub(self.turns.available_permits())
    }

    /// Returns how many more jobs may be claimed, if `ahead` jobs may be held in addition to the turns.
    pub(crate) fn free(&self, ahead: usize) -> usize {
        (self.capacity + ahead).saturating_sub(self.places.taken.load(Ordering::Acquire))
    }

    /// Reserves slots for the jobs of a claim: as many as are free, and at most `most`.
    pub(crate) fn reserve(&self, most: usize, ahead: usize) -> Reserved {
        let wanted = |taken: usize| most.min((self.capacity + ahead).saturating_sub(taken));
        let before = self
            .places
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| Some(taken + wanted(taken)))
            .unwrap_or_else(|taken| taken);
        Reserved { places: self.places.clone(), count: wanted(before) }
    }

    /// Waits for a turn of this many jobs at once, which must not exceed the capacity. In the order of the calls.
    pub(crate) async fn turn(&self, jobs: usize) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire_many(u32::try_from(jobs).ok()?).await.ok()
    }

    /// Counts runs that have ended, whether or not that is written yet.
    pub(crate) fn count_ended(&self, runs: usize) {
        self.ended.fetch_add(runs, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits until slots were freed since the last call.
    pub(crate) async fn freed(&self) {
        self.places.freed.notified().await;
    }

    /// Takes a slot for each job, from the reserved ones.
    pub(crate) fn start(
        &self,
        jobs: impl Iterator<Item = Fence>,
        reserved: &mut Reserved,
    ) -> Vec<(Slot, Switch)> {
        let mut slots = self.slots.lock();
        let mut of_tenants = self.places.of_tenants();
        let started: Vec<_> = jobs
            .map(|fence| {
                *of_tenants.entry(fence.tenant).or_default() += 1;
                let switch = Switch::default();
                let taken = Some((fence, switch.clone()));
                let slot = if let Some(slot) = slots.free.pop() {
                    slots.places[slot] = taken;
                    slot
                } else {
                    slots.places.push(taken);
                    slots.places.len() - 1
                };
                (Slot(slot), switch)
            })
            .collect();
        self.taken.fetch_add(started.len(), Ordering::AcqRel);
        reserved.used(started.len());
        started
    }

    /// Frees the slots of attempts whose end is written.
    pub(crate) fn finish(&self, finished: impl ExactSizeIterator<Item = Slot>) {
        let count = finished.len();
        {
            let mut slots = self.slots.lock();
            let mut of_tenants = self.places.of_tenants();
            for Slot(slot) in finished {
                if let Some((fence, _)) = slots.places[slot].take()
                    && let Entry::Occupied(mut held) = of_tenants.entry(fence.tenant)
                {
                    *held.get_mut() -= 1;
                    if *held.get() == 0 {
                        held.remove();
                    }
                }
                slots.free.push(slot);
            }
        }
        self.taken.fetch_sub(count, Ordering::AcqRel);
        self.places.free(count);
    }

    /// Only the job of this tenant: another tenant's job may have the same id.
    pub(crate) fn cancel(&self, tenant: Uuid, job: Uuid) {
        self.stop_where(Stop::Canceled, |running| running.tenant == tenant && running.job == job);
    }

    pub(crate) fn stop_all(&self, why: Stop) {
        self.stop_where(why, |_| true);
    }

    fn stop_where(&self, why: Stop, is_meant: impl Fn(&Fence) -> bool) {
        let slots = self.slots.lock();
        for (fence, switch) in slots.places.iter().flatten() {
            if is_meant(fence) {
                switch.stop(why);
            }
        }
    }
}
