//! Endings that wait for an open transaction of an application: one that cancels the job, or that holds a key, the quota or the first use
//! of a lane that a chained job needs. They are tried again beside the others, until that transaction ends. The worker keeps its
//! lease of them, but not their slots.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use uuid::Uuid;

use super::{MOST, MOST_WAITS, Settler, UnsettledAttempt, fitting};
use crate::store::database::Session;
use crate::store::job::SettleEntry;

/// Rest between two rounds.
const AGAIN: Duration = Duration::from_millis(200);

/// Where the settler puts what it sets aside.
pub(super) struct Aside {
    to_retry: mpsc::UnboundedSender<UnsettledAttempt>,
    tenants: Arc<Mutex<HashSet<Uuid>>>,
}

/// Where it arrives.
pub(super) struct SetAside {
    arriving: mpsc::UnboundedReceiver<UnsettledAttempt>,
    /// Whose chained jobs have to wait.
    tenants: Arc<Mutex<HashSet<Uuid>>>,
}

impl Aside {
    pub(super) fn new() -> (Self, SetAside) {
        let (to_retry, arriving) = mpsc::unbounded_channel();
        let tenants = Arc::default();
        (Self { to_retry, tenants: Arc::clone(&tenants) }, SetAside { arriving, tenants })
    }

    pub(super) fn put(&self, ended: impl IntoIterator<Item = UnsettledAttempt>) {
        for one in ended {
            tracing::debug!(
                job_id = %one.claimed.fence.job, tenant_id = %one.claimed.fence.tenant,
                "another transaction holds the job, or what follows it; its end is written later");
            if one.has_chain() {
                self.tenants.lock().unwrap_or_else(PoisonError::into_inner).insert(one.claimed.fence.tenant);
            }
            // Received until this sender is gone.
            let _ = self.to_retry.send(one);
        }
    }

    /// Endings with chained jobs of a tenant that has some aside already would wait as well, and the whole batch with them.
    pub(super) fn take_with_its_tenant(&self, batch: &mut Vec<UnsettledAttempt>) {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !tenants.is_empty() {
            let is_meant =
                |one: &mut UnsettledAttempt| one.has_chain() && tenants.contains(&one.claimed.fence.tenant);
            self.put(batch.extract_if(.., is_meant));
        }
    }
}

impl Settler {
    /// Tries again what is set aside, until all of it is written and no more can come. A worker that stops tries for as long as its
    /// lease; then the reaper ends these attempts.
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
                        "endings wait for open transactions; they are left to the reaper"
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
            waiting = self.write_again(waiting).await;
            let mut tenants = set_aside.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            tenants.clear();
            tenants.extend(waiting.iter().filter(|one| one.has_chain()).map(|one| one.claimed.fence.tenant));
        }
    }

    /// One round; answers what still waits. Those with chained jobs are tried tenant by tenant, so that one does not wait for another's
    /// transaction.
    async fn write_again(&self, waiting: Vec<UnsettledAttempt>) -> Vec<UnsettledAttempt> {
        let mut session = None;
        let mut left = Vec::new();
        let (mut chained, plain): (Vec<UnsettledAttempt>, Vec<UnsettledAttempt>) =
            waiting.into_iter().partition(UnsettledAttempt::has_chain);
        chained.sort_by_key(|one| one.claimed.fence.tenant);
        let groups = chained.chunk_by(|one, next| one.claimed.fence.tenant == next.claimed.fence.tenant);
        for group in std::iter::once(&plain[..]).chain(groups) {
            let mut rest = group;
            while !rest.is_empty() {
                let (now, later) = rest.split_at(fitting(rest).min(MOST));
                self.write_group(&mut session, now, &mut left).await;
                rest = later;
            }
        }
        left
    }

    async fn write_group(
        &self,
        session: &mut Option<Session>,
        group: &[UnsettledAttempt],
        left: &mut Vec<UnsettledAttempt>,
    ) {
        let endings: Vec<SettleEntry> = group.iter().map(|one| one.ending.clone()).collect();
        match self.insist(session, &endings).await {
            Some(Ok(settled)) => {
                left.extend(settled.busy.iter().map(|&position| group[position].clone()));
                self.tell(group, &settled);
            }
            Some(Err(error)) if group.len() == 1 && !error.is_lock_timeout() => {
                self.write_refused(session, &group[0], &error).await;
            }
            Some(Err(_)) if group.len() > 1 => {
                let mut waits = Vec::new();
                for (position, one) in group.iter().enumerate() {
                    if waits.len() >= MOST_WAITS {
                        left.extend_from_slice(&group[position..]);
                        break;
                    }
                    Box::pin(self.write_group(session, std::slice::from_ref(one), &mut waits)).await;
                }
                left.append(&mut waits); // behind those that were not tried
            }
            Some(Err(_)) | None => left.extend_from_slice(group),
        }
    }
}
