//! Writes the ends of attempts. Ends that arrive while one batch is being written form the next; a single one is
//! written immediately. If the database fails, writes are retried until the worker abandons them; a text that the
//! database refuses is dropped, but not the end. Ends that have to wait for an open transaction of an application are
//! delayed ([`aside`]), and the rest is written. Stops when every sender was dropped and the last batch is written.

mod aside;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
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
use crate::store::settle::SettleEntry;
use crate::telemetry::{self, Events, Meters, Transition};

/// The maximum number of ends per statement. Larger batches do not increase the throughput and lock their rows for
/// longer.
const MAX: usize = 500;
/// Under load a small batch waits this long for more ends, and longer if its slots are not needed meanwhile.
const LINGER: Duration = Duration::from_millis(2);
const LINGER_AHEAD: Duration = Duration::from_millis(5);
const SMALL_BATCH: usize = 64;
/// The maximum size of the details per statement. A message of a gigabyte breaks the connection, and five hundred large
/// results can reach that.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// After this many lock timeouts in a batch, the remaining ends are delayed: each may wait as long.
const MAX_WAITS: usize = 3;

/// An attempt that has ended and whose end is not written yet.
#[derive(Debug, Clone)]
pub(crate) struct UnsettledAttempt {
    pub(crate) claimed: Arc<Claimed>,
    pub(crate) slot: Slot,
    /// Its slot is freed only when it is written; see [`aside`].
    pub(crate) keeps_slot: bool,
    pub(crate) policies: Arc<Policies>,
    pub(crate) ending: SettleEntry,
    pub(crate) outcome: AttemptOutcome,
    pub(crate) next: State,
    pub(crate) ran: Duration,
    pub(crate) meters: Arc<Meters>,
    /// Its handler has settled it in its own transaction; this end only counts if that did not commit.
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
    /// Whether the worker may prefetch jobs.
    pub(crate) claims_ahead: bool,
    /// How long to wait for the response to a write. It is then sent again; if it had taken effect, the second one
    /// changes nothing.
    pub(crate) patience: Duration,
    /// Ends that the database refuses in every form; see [`keep_trying`]. Those that are left when the settler stops
    /// are abandoned.
    pub(crate) refused: Mutex<JoinSet<()>>,
}

impl Settler {
    pub(crate) async fn run(self, ended: mpsc::UnboundedReceiver<UnsettledAttempt>) {
        let (aside, set_aside) = Aside::new();
        tokio::join!(self.write_all(ended, aside), self.write_aside(set_aside));
    }

    async fn write_all(&self, mut ended: mpsc::UnboundedReceiver<UnsettledAttempt>, aside: Aside) {
        let mut session = None;
        let mut batch = Vec::with_capacity(MAX);
        let mut last_write = Instant::now();
        let linger = if self.claims_ahead { LINGER_AHEAD } else { LINGER };
        while ended.recv_many(&mut batch, MAX).await > 0 {
            if batch.len() < SMALL_BATCH && last_write.elapsed() < linger {
                let until = tokio::time::Instant::now() + linger;
                while batch.len() < SMALL_BATCH {
                    let room = MAX - batch.len();
                    match tokio::time::timeout_at(until, ended.recv_many(&mut batch, room)).await {
                        Ok(1..) => {}
                        Ok(0) | Err(_) => break,
                    }
                }
            }
            let mut slots: Vec<Slot> = batch.iter().map(|one| one.slot).collect();
            aside.take_with_its_tenant(&mut batch);
            let mut rest = &batch[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(fitting(rest));
                self.write(&mut session, now, &aside).await;
                rest = later;
            }
            // Delayed ends have ended too, so their slots are free, unless too many are delayed already.
            let kept = aside.take_kept();
            slots.retain(|slot| !kept.contains(slot));
            self.running.finish(slots.into_iter());
            batch.clear();
            last_write = Instant::now();
        }
    }

    /// Writes the batch, regardless of how long the database takes; only `give_up` stops the retries. Returns whether a
    /// lock timeout occurred.
    async fn write(&self, session: &mut Option<Session>, batch: &[UnsettledAttempt], aside: &Aside) -> bool {
        let endings: Vec<SettleEntry> = batch.iter().map(|one| one.ending.clone()).collect();
        match self.retry_settlement(session, &endings).await {
            Some(Ok(settled)) => {
                aside.put(settled.busy.iter().map(|&position| batch[position].clone()));
                self.report(batch, &settled);
            }
            Some(Err(error)) if error.is_lock_timeout() && batch.iter().any(UnsettledAttempt::has_chain) => {
                // A chained job of one of them waits for a transaction; each may, so each is tried separately.
                let (chained, plain): (Vec<UnsettledAttempt>, Vec<UnsettledAttempt>) =
                    batch.iter().cloned().partition(UnsettledAttempt::has_chain);
                aside.put(chained);
                if !plain.is_empty() {
                    Box::pin(self.write(session, &plain, aside)).await;
                }
            }
            Some(Err(_)) if batch.len() > 1 => {
                // One of them is refused, or locked by another transaction: find it, one by one.
                let mut waits = 0;
                for (position, one) in batch.chunks(1).enumerate() {
                    if waits == MAX_WAITS {
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

    /// Writes one end that the database refused. If it has chained jobs, these are the likely cause, and a success
    /// whose next job cannot be enqueued is not a success; otherwise its texts are dropped. Neither form can be refused
    /// because of its contents.
    async fn write_refused(&self, session: &mut Option<Session>, one: &UnsettledAttempt, error: &Error) {
        tracing::error!(job_id = %one.claimed.fence.job, tenant_id = %one.claimed.fence.tenant, %error,
            "the database refused a settlement");
        let plain = if one.has_chain() {
            ending::as_failure(&one.claimed, &one.policies, error, one.ending.ran_ms)
        } else {
            ending::without_texts(&one.ending)
        };
        let problem = match self.retry_settlement(session, std::slice::from_ref(&plain)).await {
            Some(Err(error)) => error.to_string(),
            Some(Ok(settled)) if !settled.busy.is_empty() => "another transaction holds the job".to_owned(),
            Some(Ok(_)) | None => return,
        };
        tracing::error!(job_id = %one.claimed.fence.job, problem, "cannot write a settlement; retrying periodically");
        let mut refused = self.refused.lock();
        while refused.try_join_next().is_some() {}
        refused.spawn(keep_trying(self.database.clone(), plain, self.give_up.clone()));
    }

    /// Returns the result of the database, as soon as it is one that a retry would not change soon.
    async fn retry_settlement(
        &self,
        session: &mut Option<Session>,
        endings: &[SettleEntry],
    ) -> Option<Result<store::settle::Settled>> {
        let mut pause = Duration::from_millis(20);
        loop {
            let result = async {
                if session.is_none() {
                    *session = Some(self.database.session().await?.patient_for(self.patience));
                }
                match session {
                    Some(session) => store::settle::settle(session, endings).await,
                    None => Ok(store::settle::Settled::default()),
                }
            }
            .await;
            match result {
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
                result => return Some(result),
            }
        }
    }

    fn report(&self, batch: &[UnsettledAttempt], result: &store::settle::Settled) {
        metrics::histogram!("windlass_settle_batch_size").record(batch.len() as f64);
        let mut is_settled = vec![false; batch.len()];
        for &position in &result.settled {
            is_settled[position] = true;
        }
        let has_subscribers = self.events.has_subscribers();
        for (position, one) in batch.iter().enumerate() {
            if result.busy.contains(&position) {
                continue;
            }
            if !is_settled[position] && !one.is_settled {
                metrics::counter!("windlass_lease_lost_total").increment(1);
                tracing::info!(
                    job_id = %one.claimed.fence.job, tenant_id = %one.claimed.fence.tenant,
                    definition_key = %one.claimed.definition_key, attempt_no = one.claimed.fence.attempt,
                    worker_id = %self.worker_id, "lease lost; the result of this attempt was ignored");
                continue;
            }
            let (outcome, next) = if result.overruled.contains(&position) {
                (AttemptOutcome::Canceled, State::Canceled)
            } else if one.is_settled && !is_settled[position] {
                (AttemptOutcome::Succeeded, State::Succeeded)
            } else {
                (one.outcome, one.next)
            };
            one.meters.attempt(outcome);
            one.meters.moved(outcome, next);
            one.meters.run_seconds.record(one.ran.as_secs_f64());
            if has_subscribers {
                self.events.send(Transition {
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

/// Returns how many of these fit into one statement, at least one.
fn fitting(batch: &[UnsettledAttempt]) -> usize {
    let mut bytes = 0;
    let fits = |one: &&UnsettledAttempt| {
        bytes += one.bytes();
        bytes <= MAX_BYTES
    };
    batch.iter().take_while(fits).count().max(1)
}

/// Retries one end that the database refuses in every form, for a reason unrelated to the end: a missing privilege, a
/// schema that is being repaired. Runs concurrently until it is accepted or the worker stops; then the reaper ends the
/// attempt.
async fn keep_trying(database: Database, ending: SettleEntry, give_up: CancellationToken) {
    const EVERY: Duration = Duration::from_secs(5);
    loop {
        tokio::select! {
            () = give_up.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let Ok(session) = database.session().await else { continue };
        let session = session.patient_for(EVERY);
        let result = store::settle::settle(&session, std::slice::from_ref(&ending)).await;
        if result.is_ok_and(|settled| settled.busy.is_empty()) {
            return;
        }
    }
}
