//! Writes the ends of attempts. Those that arrive while one batch is being written form the next; a lone one is written
//! at once. A sick database is tried again until the worker is told to give up; a text the database will not take is
//! dropped rather than the ending. What an open transaction of an application holds is set aside ([`aside`]), and the rest is written.
//! How it stops: when every sender is gone and the last batch is written.

mod aside;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::aside::Aside;
use super::running::{Running, Slot};
use crate::attempt::ending;
use crate::error::{Error, Result};
use crate::model::definition::Policies;
use crate::model::job::claimed::Claimed;
use crate::model::job::state::{AttemptOutcome, MovedBy, State};
use crate::store;
use crate::store::database::{Database, Session};
use crate::store::job::SettleEntry;
use crate::telemetry::{self, Events, Meters, Transition};

/// Endings per statement. Larger batches do not raise the throughput and keep their rows locked for longer.
const MOST: usize = 500;
/// Under load a small batch waits this long for company, and longer where its slots are not missed meanwhile.
const LINGER: Duration = Duration::from_millis(2);
const LINGER_AHEAD: Duration = Duration::from_millis(5);
const COMPANY: usize = 64;
/// Bytes of details per statement. A message of a gigabyte breaks the connection, and five hundred large results are one.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// After so many endings of a batch had to wait for a lock in vain, the others are set aside: each may wait for as long.
const MOST_WAITS: usize = 3;

/// An attempt that has ended and whose end is not written yet.
#[derive(Debug, Clone)]
pub(crate) struct UnsettledAttempt {
    pub(crate) claimed: Arc<Claimed>,
    pub(crate) slot: Slot,
    /// Its slot is free only when it is written; see [`aside`].
    pub(crate) keeps_slot: bool,
    pub(crate) policies: Arc<Policies>,
    pub(crate) ending: SettleEntry,
    pub(crate) outcome: AttemptOutcome,
    pub(crate) next: State,
    pub(crate) ran: Duration,
    pub(crate) meters: Arc<Meters>,
    /// Its handler says that it has settled it in its own transaction; this ending only counts if that did not commit.
    pub(crate) is_settled: bool,
}

impl UnsettledAttempt {
    /// Whether other jobs are enqueued with it, which may have to wait for a transaction of its tenant.
    fn has_chain(&self) -> bool {
        self.ending.has_chain
    }

    fn bytes(&self) -> usize {
        self.ending.detail.as_ref().map_or(0, String::len)
    }
}

pub(crate) struct Settler {
    pub(crate) database: Database,
    pub(crate) running: Arc<Running>,
    pub(crate) events: Events,
    pub(crate) worker_id: Arc<str>,
    pub(crate) give_up: CancellationToken,
    /// Whether the worker may hold jobs beyond those it runs.
    pub(crate) claims_ahead: bool,
    /// How long an ending may go unanswered. It is then sent again; if it had taken effect, the second one changes nothing.
    pub(crate) patience: Duration,
    /// Endings that the database refuses in every form; see [`keep_trying`]. Those that are left when the settler ends are given up.
    pub(crate) refused: Mutex<JoinSet<()>>,
}

impl Settler {
    pub(crate) async fn run(self, ended: mpsc::UnboundedReceiver<UnsettledAttempt>) {
        let (aside, set_aside) = Aside::new();
        tokio::join!(self.write_all(ended, aside), self.write_aside(set_aside));
    }

    async fn write_all(&self, mut ended: mpsc::UnboundedReceiver<UnsettledAttempt>, aside: Aside) {
        let mut session = None;
        let mut batch = Vec::with_capacity(MOST);
        let mut last_write = Instant::now();
        let linger = if self.claims_ahead { LINGER_AHEAD } else { LINGER };
        while ended.recv_many(&mut batch, MOST).await > 0 {
            if batch.len() < COMPANY && last_write.elapsed() < linger {
                let until = tokio::time::Instant::now() + linger;
                while batch.len() < COMPANY {
                    let room = MOST - batch.len();
                    match tokio::time::timeout_at(until, ended.recv_many(&mut batch, room)).await {
                        Ok(1..) => {}
                        Ok(0) | Err(_) => break,
                    }
                }
            }
            batch.sort_unstable_by_key(|one| (one.claimed.fence.tenant, one.claimed.fence.job));
            let mut slots: Vec<Slot> = batch.iter().map(|one| one.slot).collect();
            aside.take_with_its_tenant(&mut batch);
            let mut rest = &batch[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(fitting(rest));
                self.write(&mut session, now, &aside).await;
                rest = later;
            }
            // What is set aside has ended too, so its slot is free, unless too much is aside already.
            let kept = aside.take_kept();
            slots.retain(|slot| !kept.contains(slot));
            self.running.finish(slots.into_iter());
            batch.clear();
            last_write = Instant::now();
        }
    }

    /// Writes the batch, however long the database takes; only `give_up` ends the trying. Answers whether it gave up waiting for a lock.
    async fn write(&self, session: &mut Option<Session>, batch: &[UnsettledAttempt], aside: &Aside) -> bool {
        let endings: Vec<SettleEntry> = batch.iter().map(|one| one.ending.clone()).collect();
        match self.insist(session, &endings).await {
            Some(Ok(settled)) => {
                aside.put(settled.busy.iter().map(|&position| batch[position].clone()));
                self.tell(batch, &settled);
            }
            Some(Err(error)) if error.is_lock_timeout() && batch.iter().any(UnsettledAttempt::has_chain) => {
                // What is chained to one of them waits for a transaction; each may, so each is tried beside the others.
                let (chained, plain): (Vec<UnsettledAttempt>, Vec<UnsettledAttempt>) =
                    batch.iter().cloned().partition(UnsettledAttempt::has_chain);
                aside.put(chained);
                if !plain.is_empty() {
                    Box::pin(self.write(session, &plain, aside)).await;
                }
            }
            Some(Err(_)) if batch.len() > 1 => {
                // Something in it is refused, or held by another transaction: find out what, one by one.
                let mut waits = 0;
                for (position, one) in batch.chunks(1).enumerate() {
                    if waits == MOST_WAITS {
                        aside.put(batch[position..].iter().cloned());
                        break;
                    }
                    waits += usize::from(Box::pin(self.write(session, one, aside)).await);
                }
            }
            Some(Err(error)) if error.is_lock_timeout() => {
                aside.put([batch[0].clone()]);
                return true;
            }
            Some(Err(error)) => self.write_refused(session, &batch[0], &error).await,
            None => {}
        }
        false
    }

    /// One ending that the database refused. If it asked for chained jobs these are the likely cause, and a success whose
    /// next job cannot be enqueued is no success; else its texts are dropped. Neither form can be refused for its contents.
    async fn write_refused(&self, session: &mut Option<Session>, one: &UnsettledAttempt, error: &Error) {
        tracing::error!(job_id = %one.claimed.fence.job, tenant_id = %one.claimed.fence.tenant, %error, "an ending was refused");
        let plain = if one.has_chain() {
            ending::as_failure(&one.claimed, &one.policies, error, one.ending.ran_ms)
        } else {
            ending::without_texts(&one.ending)
        };
        let problem = match self.insist(session, std::slice::from_ref(&plain)).await {
            Some(Err(error)) => error.to_string(),
            Some(Ok(settled)) if !settled.busy.is_empty() => "another transaction holds the job".to_owned(),
            Some(Ok(_)) | None => return,
        };
        tracing::error!(job_id = %one.claimed.fence.job, problem, "an ending cannot be written; trying it now and then");
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        while refused.try_join_next().is_some() {}
        refused.spawn(keep_trying(self.database.clone(), plain, self.give_up.clone()));
    }

    /// Answers what the database says, once it says something that another try would not change soon.
    async fn insist(
        &self,
        session: &mut Option<Session>,
        endings: &[SettleEntry],
    ) -> Option<Result<store::job::Settled>> {
        let mut pause = Duration::from_millis(20);
        loop {
            let answer = async {
                if session.is_none() {
                    *session = Some(self.database.session().await?.patient_for(self.patience));
                }
                match session {
                    Some(session) => store::job::settle(session, endings).await,
                    None => Ok(store::job::Settled::default()),
                }
            }
            .await;
            match answer {
                Err(error)
                    if (error.is_transient() && !error.is_lock_timeout()) || error.is_lost_statement() =>
                {
                    *session = None;
                    telemetry::database_error("settler", &error);
                    tokio::select! {
                        () = tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())) => {}
                        () = self.give_up.cancelled() => return None,
                    }
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                answer => return Some(answer),
            }
        }
    }

    fn tell(&self, batch: &[UnsettledAttempt], answer: &store::job::Settled) {
        metrics::histogram!("windlass_settle_batch_size").record(batch.len() as f64);
        let mut is_settled = vec![false; batch.len()];
        for &position in &answer.settled {
            is_settled[position] = true;
        }
        let is_heard = self.events.is_heard();
        for (position, one) in batch.iter().enumerate() {
            if answer.busy.contains(&position) {
                continue;
            }
            if !is_settled[position] && !one.is_settled {
                metrics::counter!("windlass_lease_lost_total").increment(1);
                tracing::info!(
                    job_id = %one.claimed.fence.job, tenant_id = %one.claimed.fence.tenant,
                    definition_key = %one.claimed.definition_key, attempt_no = one.claimed.fence.attempt,
                    worker_id = %self.worker_id, "the lease was lost; this attempt's end does not count");
                continue;
            }
            let (outcome, next) = if answer.overruled.contains(&position) {
                (AttemptOutcome::Canceled, State::Canceled)
            } else if one.is_settled && !is_settled[position] {
                (AttemptOutcome::Succeeded, State::Succeeded)
            } else {
                (one.outcome, one.next)
            };
            one.meters.attempt(outcome);
            one.meters.moved(outcome, next);
            one.meters.run_seconds.record(one.ran.as_secs_f64());
            if is_heard {
                self.events.tell(Transition {
                    tenant_id: one.claimed.fence.tenant,
                    job_id: one.claimed.fence.job,
                    definition_key: one.claimed.definition_key.clone(),
                    attempt_no: one.claimed.fence.attempt,
                    worker_id: self.worker_id.clone(),
                    from: State::Running,
                    to: next,
                    by: MovedBy::Worker,
                    outcome: Some(outcome),
                    ran: Some(one.ran),
                    queued: one.claimed.queued(),
                    trace: one.claimed.trace(),
                });
            }
        }
    }
}

/// How many of these, at least one, one statement takes.
fn fitting(batch: &[UnsettledAttempt]) -> usize {
    let mut bytes = 0;
    let fits = |one: &&UnsettledAttempt| {
        bytes += one.bytes();
        bytes <= MOST_BYTES
    };
    batch.iter().take_while(fits).count().max(1)
}

/// One ending that the database refuses in every form, which has nothing to do with the ending: a missing right, a schema
/// that is being mended. Tried beside the others until it is taken or the worker goes; then the reaper ends the attempt.
async fn keep_trying(database: Database, ending: SettleEntry, give_up: CancellationToken) {
    const EVERY: Duration = Duration::from_secs(5);
    loop {
        tokio::select! {
            () = give_up.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let Ok(session) = database.session().await else { continue };
        let session = session.patient_for(EVERY);
        let answer = store::job::settle(&session, std::slice::from_ref(&ending)).await;
        if answer.is_ok_and(|settled| settled.busy.is_empty()) {
            return;
        }
    }
}
