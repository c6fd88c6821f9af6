//! Every event, metric name and log field of the engine, as types.
//!
//! A transition is reported in three ways by one call: as a log line with the fields of [`Transition`], as counters,
//! and to subscribers. The library installs no recorder and no subscriber; the application chooses.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::model::job::state::{AttemptOutcome, MovedBy, State};
use crate::model::new_job::{Enqueued, NewJob};
use crate::model::trace::Trace;

/// Metric names and descriptions. `docs/telemetry.md` lists the same, and a test compares the two.
pub const METRICS: &[(&str, &str)] = &[
    ("windlass_attempts_total", "ended attempts, by definition_key and outcome"),
    ("windlass_claimed_total", "jobs claimed, by definition_key"),
    ("windlass_claim_batch_size", "jobs per claim, without empty claims"),
    (
        "windlass_database_seconds",
        "duration of database calls, by call: claim, settle, enqueue, heartbeat, keep, read",
    ),
    ("windlass_database_errors_total", "database errors of the engine, by part"),
    (
        "windlass_enqueued_total",
        "jobs enqueued by this process, by definition_key; windlass_jobs_enqueued_total counts those of all processes",
    ),
    ("windlass_finished_total", "jobs that ended in this worker, by definition_key and status"),
    ("windlass_events_dispatched_total", "dispatched events"),
    ("windlass_fires_total", "processed instants of schedules, by outcome: fired, skipped"),
    ("windlass_heartbeats_total", "heartbeats, by result: granted, refused, failed"),
    ("windlass_keeper_moved_total", "jobs moved or rows changed by the keeper, by duty"),
    ("windlass_lease_lost_total", "settlements rejected because the lease was lost"),
    ("windlass_queue_seconds", "time from due to claim, by definition_key"),
    ("windlass_reaped_total", "jobs recovered from lost workers"),
    ("windlass_retries_total", "failed attempts that are retried, by definition_key"),
    ("windlass_run_seconds", "duration of attempts, by definition_key"),
    ("windlass_running", "jobs that are running in this worker"),
    ("windlass_settle_batch_size", "settlements per statement"),
];

/// One committed transition of one job.
///
/// ```no_run
/// # async fn example(worker: &windlass::Worker) -> windlass::Result<()> {
/// let mut transitions = worker.subscribe();
/// while let Ok(transition) = transitions.recv().await {
///     println!("{}: {} -> {} after {:?}", transition.job_id, transition.from, transition.to, transition.ran);
/// }
/// # Ok(())
/// # }
/// ```
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
    /// How the attempt ended, if it did.
    pub outcome: Option<AttemptOutcome>,
    /// How long it ran, if it ended.
    pub ran: Option<Duration>,
    /// How long the job had been due when it was claimed.
    pub queued: Duration,
    /// The trace that the job belongs to.
    pub trace: Trace,
}

/// Sends transitions to subscribers and the log.
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

    /// Whether there is a subscriber or the log level is enabled; otherwise the hot path builds no event.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.subscribers.receiver_count() > 0 || tracing::enabled!(tracing::Level::DEBUG)
    }

    pub(crate) fn send(&self, event: Transition) {
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
        // It is not an error if there is no subscriber.
        let _ = self.subscribers.send(event);
    }
}

/// The meters of one definition, created once so that counting needs no lookup.
pub(crate) struct Meters {
    pub(crate) claimed: Counter,
    pub(crate) queue_seconds: Histogram,
    pub(crate) run_seconds: Histogram,
    attempts: [(AttemptOutcome, Counter); AttemptOutcome::ALL.len()],
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
                let labels = [("definition_key", key()), ("outcome", outcome.as_str().to_owned())];
                (outcome, metrics::counter!("windlass_attempts_total", &labels))
            }),
        }
    }

    pub(crate) fn attempt(&self, outcome: AttemptOutcome) {
        if let Some((_, counter)) = self.attempts.iter().find(|(of, _)| *of == outcome) {
            counter.increment(1);
        }
    }

    /// Counts a retry, or the final state of the job.
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
    tracing::warn!(part, %error, "database error; retrying");
}

/// Logs a row that is omitted from a result.
pub(crate) fn unreadable_row(error: &crate::error::Error) {
    tracing::error!(%error, "a row cannot be read and is skipped");
}

/// Counts enqueued jobs, without duplicates.
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

/// Records how long a statement took. The label is derived from the function that it calls; there are few labels.
pub(crate) fn database_time(statement: &str, took: Duration) {
    let called = statement.split_once("windlass.").map_or("", |(_, rest)| rest);
    let name =
        called.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').next().unwrap_or_default();
    let call = match name {
        "claim" | "unclaim" | "active_lanes" => "claim",
        "settle" | "settle_plain" | "settle_blocks" => "settle",
        "heartbeat" => "heartbeat",
        "promote"
        | "lost_jobs"
        | "reap"
        | "expire"
        | "unblock_all"
        | "fold_tallies"
        | "prune"
        | "retire"
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
