//! Ends that wait for an open transaction of an application: one that cancels the job, or that holds a key, the quota
//! or the first use of a lane that a chained job needs. They are retried concurrently with the others, until that
//! transaction ends. The worker keeps their lease, but not their slots, or a tenant could occupy the worker with them.
//! Their number is bounded, or a tenant could fill its memory: an end beyond that keeps its slot until it is written.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{MAX, MAX_WAITS, Settler, UnsettledAttempt, fitting};
use crate::model::job::claimed::Fence;
use crate::store::database::Session;
use crate::store::settle::SettleEntry;
use crate::worker::running::Slot;

/// The pause between two rounds.
const AGAIN: Duration = Duration::from_millis(200);
/// The maximum number of delayed ends without a slot, and their size, per worker.
const MAX_ASIDE: usize = 1000;
const MAX_BYTES_ASIDE: usize = 64 << 20;

/// The sending side: the settler adds delayed ends here.
pub(super) struct Aside {
    to_retry: mpsc::UnboundedSender<UnsettledAttempt>,
    tenants: Arc<Mutex<HashSet<Uuid>>>,
    space: Arc<AsideSpace>,
    /// The slots of ends that were added since the last call and keep them.
    kept: Mutex<Vec<Slot>>,
}

/// The receiving side.
pub(super) struct SetAside {
    arriving: mpsc::UnboundedReceiver<UnsettledAttempt>,
    /// The tenants whose chained jobs have to wait.
    tenants: Arc<Mutex<HashSet<Uuid>>>,
    space: Arc<AsideSpace>,
}

/// The space of delayed ends that have released their slots.
#[derive(Debug, Default)]
struct AsideSpace {
    endings: AtomicUsize,
    bytes: AtomicUsize,
}

impl AsideSpace {
    /// Takes space for this many bytes; returns false if there is none left.
    fn take(&self, bytes: usize) -> bool {
        let is_free = self.endings.load(Ordering::Relaxed) < MAX_ASIDE
            && self.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= MAX_BYTES_ASIDE;
        if is_free {
            self.endings.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        is_free
    }

    fn release(&self, bytes: usize) {
        self.endings.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Aside {
    pub(super) fn new() -> (Self, SetAside) {
        let (to_retry, arriving) = mpsc::unbounded_channel();
        let (tenants, space) = (Arc::default(), Arc::<AsideSpace>::default());
        let set_aside = SetAside { arriving, tenants: Arc::clone(&tenants), space: Arc::clone(&space) };
        (Self { to_retry, tenants, space, kept: Mutex::default() }, set_aside)
    }

    pub(super) fn put(&self, ended: impl IntoIterator<Item = UnsettledAttempt>) {
        for mut one in ended {
            tracing::debug!(
                job_id = %one.claimed.fence.job, tenant_id = %one.claimed.fence.tenant,
                "another transaction holds the job or its next jobs; the settlement is written later");
            if one.has_chain() {
                self.tenants.lock().insert(one.claimed.fence.tenant);
            }
            one.keeps_slot = !self.space.take(one.bytes());
            if one.keeps_slot {
                self.kept.lock().push(one.slot);
            }
            // Received until this sender is dropped.
            let _ = self.to_retry.send(one);
        }
    }

    /// Takes the slots that are not free although their runs have ended.
    pub(super) fn take_kept(&self) -> Vec<Slot> {
        std::mem::take(&mut *self.kept.lock())
    }

    /// An end with chained jobs of a tenant that already has delayed ones would wait too, and the whole batch with it.
    pub(super) fn take_with_its_tenant(&self, batch: &mut Vec<UnsettledAttempt>) {
        let tenants = self.tenants.lock().clone();
        if !tenants.is_empty() {
            let is_meant =
                |one: &mut UnsettledAttempt| one.has_chain() && tenants.contains(&one.claimed.fence.tenant);
            self.put(batch.extract_if(.., is_meant));
        }
    }
}

impl Settler {
    /// Retries delayed ends until all of them are written and no more can arrive. A worker that stops retries for the
    /// length of its lease; then the reaper ends these attempts.
    pub(super) async fn write_aside(&self, mut set_aside: SetAside) {
        let mut waiting: Vec<UnsettledAttempt> = Vec::new();
        let mut stops_at = None;
        loop {
            if waiting.is_empty() {
                match set_aside.arriving.recv().await {
                    Some(one) => waiting.push(one),
                    None => return,
                }
            }
            if set_aside.arriving.is_closed() && set_aside.arriving.is_empty() {
                let now = tokio::time::Instant::now();
                if now >= *stops_at.get_or_insert(now + self.patience) {
                    tracing::warn!(
                        endings = waiting.len(),
                        "settlements still wait for open transactions; the reaper recovers their jobs"
                    );
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.give_up.cancelled() => return,
            }
            while let Ok(one) = set_aside.arriving.try_recv() {
                waiting.push(one);
            }
            waiting = self.write_again(waiting, &set_aside.space).await;
            let mut tenants = set_aside.tenants.lock();
            tenants.clear();
            tenants.extend(waiting.iter().filter(|one| one.has_chain()).map(|one| one.claimed.fence.tenant));
        }
    }

    /// Runs one round; returns the ends that still wait. Those with chained jobs are tried per tenant, so that none
    /// waits for another tenant's transaction.
    async fn write_again(&self, waiting: Vec<UnsettledAttempt>, space: &AsideSpace) -> Vec<UnsettledAttempt> {
        let mut session = None;
        let mut left: Vec<UnsettledAttempt> = Vec::new();
        let before: Vec<(Fence, usize, Option<Slot>)> = waiting
            .iter()
            .map(|one| (one.claimed.fence, one.bytes(), one.keeps_slot.then_some(one.slot)))
            .collect();
        let (mut chained, plain): (Vec<UnsettledAttempt>, Vec<UnsettledAttempt>) =
            waiting.into_iter().partition(UnsettledAttempt::has_chain);
        chained.sort_by_key(|one| one.claimed.fence.tenant);
        let groups = chained.chunk_by(|one, next| one.claimed.fence.tenant == next.claimed.fence.tenant);
        for group in std::iter::once(&plain[..]).chain(groups) {
            let mut rest = group;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(fitting(rest).min(MAX));
                self.write_group(&mut session, now, &mut left).await;
                rest = later;
            }
        }
        let still: HashSet<Fence> = left.iter().map(|one| one.claimed.fence).collect();
        let mut freed = Vec::new();
        for (_, bytes, slot) in before.into_iter().filter(|(fence, ..)| !still.contains(fence)) {
            match slot {
                Some(slot) => freed.push(slot),
                None => space.release(bytes),
            }
        }
        self.running.finish(freed.into_iter());
        left
    }

    async fn write_group(
        &self,
        session: &mut Option<Session>,
        group: &[UnsettledAttempt],
        left: &mut Vec<UnsettledAttempt>,
    ) {
        let endings: Vec<SettleEntry> = group.iter().map(|one| one.ending.clone()).collect();
        match self.retry_settlement(session, &endings).await {
            Some(Ok(settled)) => {
                left.extend(settled.busy.iter().map(|&position| group[position].clone()));
                self.report(group, &settled);
            }
            Some(Err(error)) if group.len() == 1 && !error.is_lock_timeout() => {
                self.write_refused(session, &group[0], &error).await;
            }
            Some(Err(_)) if group.len() > 1 => {
                let mut waits = Vec::new();
                for (position, one) in group.iter().enumerate() {
                    if waits.len() >= MAX_WAITS {
                        left.extend_from_slice(&group[position..]);
                        break;
                    }
                    Box::pin(self.write_group(session, std::slice::from_ref(one), &mut waits)).await;
                }
                left.append(&mut waits); // after those that were not tried
            }
            Some(Err(_)) | None => left.extend_from_slice(group),
        }
    }
}
