//! Every event, metric name and log field of the engine, as types.
//!
//! A transition is told three ways by one call: as a log line with the fields of [`Transition`], as counters, and to
//! whoever subscribed. The library installs no recorder and no subscriber; the application chooses.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::model::job::state::{AttemptOutcome, MovedBy, State};
use crate::model::new_job::{Enqueued, NewJob};
use crate::model::trace::Trace;

/// Metric names, with what they count. `docs/telemetry.md` lists the same, and a test compares the two.
pub const METRICS: &[(&str, &str)] = &[
    ("windlass_attempts_total", "attempts ended, by definition_key and outcome"),
    ("windlass_claimed_total", "jobs claimed, by definition_key"),
    ("windlass_claim_batch_size", "jobs per claim that found any"),
    (
        "windlass_database_seconds",
        "time the database took to answer, by call: claim, settle, enqueue, heartbeat, keep, read",
    ),
    ("windlass_database_errors_total", "database errors met by the engine, by part"),
    (
        "windlass_enqueued_total",
        "jobs this process enqueued itself, by definition_key; for all of them see windlass_jobs_enqueued_total",
    ),
    ("windlass_finished_total", "jobs that ended in this worker, by definition_key and status"),
    ("windlass_events_dispatched_total", "events taken out of the outbox"),
    ("windlass_fires_total", "instants of schedules decided, by outcome: fired, skipped"),
    ("windlass_heartbeats_total", "heartbeats, by result: granted, refused, failed"),
    ("windlass_keeper_moved_total", "jobs moved or rows tidied by a keeper duty, by duty"),
    ("windlass_lease_lost_total", "endings refused because the lease was lost"),
    ("windlass_queue_seconds", "time from due to claimed, by definition_key"),
    ("windlass_reaped_total", "jobs taken from silent workers"),
    ("windlass_retries_total", "attempts that failed and are tried again, by definition_key"),
    ("windlass_run_seconds", "time an attempt ran, by definition_key"),
    ("windlass_running", "jobs that run in this worker now"),
    ("windlass_settle_batch_size", "endings per settle statement"),
];

/// One move of one job, as it was committed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Transition {
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The id of the job.
    pub job_id: Uuid,
    /// The key of its definition.
    pub definition_key: Arc<str>,
    /// The number of the attempt.
    pub attempt_no: i32,
    /// The id of the worker.
    pub worker_id: Arc<str>,
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// What moved the job.
    pub by: MovedBy,
    /// How the attempt ended, when one did.
    pub outcome: Option<AttemptOutcome>,
    /// How long it ran, when it ended.
    pub ran: Option<Duration>,
    /// How long the job had been due when it was claimed.
    pub queued: Duration,
    /// The trace that the job belongs to.
    pub trace: Trace,
}

/// Where transitions are told.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    subscribers: broadcast::Sender<Transition>,
}

impl Default for Events {
    fn default() -> Self {
        Self { subscribers: broadcast::channel(1024).0 }
    }
}

impl Events {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Transition> {
        self.subscribers.subscribe()
    }

    /// Whether anybody would notice; the hot path builds no event for nobody.
    pub(crate) fn is_heard(&self) -> bool {
        self.subscribers.receiver_count() > 0 || tracing::enabled!(tracing::Level::DEBUG)
    }

    pub(crate) fn tell(&self, event: Transition) {
        tracing::debug!(
            job_id = %event.job_id,
            tenant_id = %event.tenant_id,
            definition_key = %event.definition_key,
            attempt_no = event.attempt_no,
            worker_id = %event.worker_id,
            from = %event.from,
            to = %event.to,
            "job moved"
        );
        // No receiver is not an error: nobody subscribed.
        let _ = self.subscribers.send(event);
    }
}

/// The meters of one definition, made once so that counting costs no look-up.
pub(crate) struct Meters {
    pub(crate) claimed: Counter,
    pub(crate) queue_seconds: Histogram,
    pub(crate) run_seconds: Histogram,
    attempts: [Counter; AttemptOutcome::ALL.len()],
    retries: Counter,
    finished: [(State, Counter); 4],
}

impl Meters {
    pub(crate) fn new(definition_key: &str) -> Self {
        let key = || definition_key.to_owned();
        Self {
            claimed: metrics::counter!("windlass_claimed_total", "definition_key" => key()),
            queue_seconds: metrics::histogram!("windlass_queue_seconds", "definition_key" => key()),
            run_seconds: metrics::histogram!("windlass_run_seconds", "definition_key" => key()),
            retries: metrics::counter!("windlass_retries_total", "definition_key" => key()),
            finished: [State::Succeeded, State::Failed, State::DeadLetter, State::Canceled].map(|state| {
                let labels = [("definition_key", key()), ("status", state.as_str().to_owned())];
                (state, metrics::counter!("windlass_finished_total", &labels))
            }),
            attempts: AttemptOutcome::ALL.map(|outcome| {
                metrics::counter!("windlass_attempts_total", "definition_key" => key(), "outcome" => outcome.as_str())
            }),
        }
    }

    pub(crate) fn attempt(&self, outcome: AttemptOutcome) {
        let position = usize::try_from(outcome.code() - 1).unwrap_or(0);
        self.attempts[position].increment(1);
    }

    /// What became of the job.
    pub(crate) fn moved(&self, outcome: AttemptOutcome, to: State) {
        if matches!(outcome, AttemptOutcome::Failed | AttemptOutcome::Timeout) && !to.is_terminal() {
            self.retries.increment(1);
        }
        if let Some((_, counter)) = self.finished.iter().find(|(state, _)| *state == to) {
            counter.increment(1);
        }
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meters")
    }
}

pub(crate) fn database_error(part: &'static str, error: &crate::error::Error) {
    metrics::counter!("windlass_database_errors_total", "part" => part).increment(1);
    tracing::warn!(part, %error, "the database did not answer as hoped; trying again");
}

/// A row that is left out of what is shown.
pub(crate) fn unreadable_row(error: &crate::error::Error) {
    tracing::error!(%error, "a row cannot be read and is left out");
}

/// Counts jobs that came in. Duplicates did not.
pub(crate) fn enqueued<'a>(jobs: impl IntoIterator<Item = (&'a NewJob, &'a Enqueued)>) {
    let mut new: Vec<(&str, u64)> = Vec::new();
    for (job, _) in jobs.into_iter().filter(|(_, enqueued)| !enqueued.is_duplicate) {
        match new.iter_mut().find(|(key, _)| *key == job.definition_key) {
            Some((_, count)) => *count += 1,
            None => new.push((&job.definition_key, 1)),
        }
    }
    for (key, count) in new {
        metrics::counter!("windlass_enqueued_total", "definition_key" => key.to_owned()).increment(count);
    }
}

/// How long a statement took. What it is for is told by the function it calls; the labels are few.
pub(crate) fn database_time(statement: &str, took: Duration) {
    let called = statement.split_once("windlass.").map_or("", |(_, rest)| rest);
    let name =
        called.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').next().unwrap_or_default();
    let call = match name {
        "claim" | "unclaim" | "active_lanes" => "claim",
        "settle" => "settle",
        "heartbeat" => "heartbeat",
        "promote"
        | "lost_jobs"
        | "reap"
        | "expire"
        | "unblock_all"
        | "fold_tallies"
        | "prune"
        | "maintain_partitions" => "keep",
        name if name.starts_with("enqueue") => "enqueue",
        _ => "read",
    };
    metrics::histogram!("windlass_database_seconds", "call" => call).record(took.as_secs_f64());
}

pub(crate) fn heartbeat(result: &'static str) {
    metrics::counter!("windlass_heartbeats_total", "result" => result).increment(1);
}

pub(crate) fn keeper_moved(duty: &'static str, count: u64) {
    metrics::counter!("windlass_keeper_moved_total", "duty" => duty).increment(count);
}
