//! Jobs as they are read: plain values with the names of the views (`windlass.jobs` and others).

mod fired;
mod kept;
mod problem;
mod worker;

pub use fired::{Event, EventTrigger, Fire, FireOutcome, WouldFire};
pub use kept::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};
pub use problem::Problem;
pub use worker::WorkerRecord;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::model::job::state::State;
use crate::text::redact::{PLACEHOLDER, Redaction, Rules};

/// One job with its current status.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, id: uuid::Uuid) -> windlass::Result<()> {
/// if let Some(job) = queue.job(windlass::DEFAULT_TENANT, id).await? {
///     println!("{} is {} since {:?}: {:?}", job.definition_key, job.status, job.finished_at, job.result);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Job {
    /// The id of the job.
    pub id: Uuid,
    /// The tenant of the job.
    pub tenant_id: Uuid,
    /// The id of its definition.
    pub definition_id: Uuid,
    /// The key of its definition.
    pub definition_key: String,
    /// The source of the job.
    pub source: String,
    /// What the source refers to, such as the id of a trigger.
    pub source_ref: Option<String>,
    /// The current status.
    pub status: State,
    /// The priority; lower numbers run first.
    pub priority: i32,
    /// The JSON input.
    pub payload: Value,
    /// The dedupe key.
    pub dedupe_key: Option<String>,
    /// The id that groups the jobs of one request or event.
    pub correlation_id: Option<String>,
    /// The earliest start.
    pub scheduled_for: Timestamp,
    /// When it was queued last.
    pub queued_at: Timestamp,
    /// The first start of any attempt.
    pub started_at: Option<Timestamp>,
    /// The last start of any attempt.
    pub last_started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How many attempts have started.
    pub attempt_count: i32,
    /// The maximum number of failures; then the job is a dead letter.
    pub max_attempts: i32,
    /// When the lease expires without a further heartbeat.
    pub lease_expires_at: Option<Timestamp>,
    /// The worker that runs it, or that ran it last.
    pub claimed_by_worker: Option<String>,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
    /// The user who enqueued it.
    pub created_by: Option<Uuid>,
    /// The name of its queue.
    pub queue: String,
    /// The value that the successful attempt returned.
    pub result: Option<Value>,
    /// The reference to what the job created.
    pub artifact: Option<Value>,
    /// The last reported progress.
    pub progress_percent: Option<f32>,
    /// The last reported message.
    pub progress_message: Option<String>,
    /// The type of the entity that the job is about.
    pub subject_type: Option<String>,
    /// The id of the entity that the job is about.
    pub subject_id: Option<String>,
    /// The tags of the job.
    pub tags: Vec<String>,
    /// The W3C traceparent given at enqueue.
    pub trace: Option<String>,
    /// The job whose completion enqueued this one.
    pub parent_id: Option<Uuid>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// The instant by which it must have ended.
    pub deadline: Option<Timestamp>,
    /// When a cancel was requested.
    pub cancel_requested_at: Option<Timestamp>,
    /// Why it ended, if the status alone does not show it: `poison`, `expired`, `dependency`, …
    pub reason: Option<String>,
    /// What its definition redacts; none if that cannot be parsed.
    #[serde(skip)]
    pub(crate) redaction: Option<Redaction>,
}

/// The jobs as they are shown: with redacted payloads. Their other texts were redacted when they were stored.
pub(crate) fn shown(jobs: Vec<Job>) -> Vec<Job> {
    let show = |job: Job| {
        let rules = job.redaction.as_ref().and_then(|redaction| Rules::of(redaction).ok());
        // Rules that cannot be parsed may redact anything.
        let payload = rules.map_or(Value::from(PLACEHOLDER), |rules| rules.payload(&job.payload));
        let dedupe_key = job.dedupe_key.as_deref().map(|key| shown_key(key).to_owned());
        Job { payload, dedupe_key, ..job }
    };
    jobs.into_iter().map(show).collect()
}

/// A dedupe key as it is shown. The key of an event's job ends with a digest of the payload, from which a short secret
/// in the payload could be guessed.
pub(crate) fn shown_key(key: &str) -> &str {
    let is_of_trigger = key.strip_prefix("trigger ").is_some_and(|rest| rest.len() == 36 + 1 + 64);
    if is_of_trigger { &key[..key.len() - 65] } else { key }
}

/// One attempt of a job.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
/// if let Some(last) = queue.attempts(windlass::DEFAULT_TENANT, job).await?.last() {
///     println!("attempt {} on {:?}: {}", last.attempt_no, last.worker_id, last.status);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// The id of the attempt.
    pub id: Uuid,
    /// The tenant of the job.
    pub tenant_id: Uuid,
    /// The id of the job.
    pub job_id: Uuid,
    /// The number of the attempt, from 1.
    pub attempt_no: i32,
    /// The worker that ran it.
    pub worker_id: Option<String>,
    /// The process id of its command.
    pub pid: Option<i32>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The exit code of its command.
    pub exit_code: Option<i32>,
    /// `running`, or how it ended.
    pub status: String,
    /// The end of its standard output.
    pub stdout_tail: Option<String>,
    /// The end of its standard error.
    pub stderr_tail: Option<String>,
    /// The error with which it ended.
    pub error_text: Option<String>,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// The signal that ended the process, if one did.
    pub signal: Option<i16>,
    /// The peak memory of the process or one of its children, in kilobytes.
    pub max_rss_kb: Option<i64>,
    /// The last reported progress.
    pub progress_percent: Option<f32>,
    /// The last reported message.
    pub progress_message: Option<String>,
}

/// The numbers of jobs of one tenant, queue and definition, by status.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::job::State;
///
/// for counts in queue.counts(None).await? {
///     println!("{}: {} of {} failed", counts.definition_key, counts.of(State::Failed), counts.enqueued());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// The tenant of the jobs.
    pub tenant_id: Uuid,
    /// The name of the queue.
    pub queue: String,
    /// The id of the definition.
    pub definition_id: Uuid,
    /// The key of the definition.
    pub definition_key: String,
    /// Jobs that are queued.
    pub queued: i64,
    /// Jobs that are running.
    pub running: i64,
    /// Jobs that are scheduled.
    pub scheduled: i64,
    /// Jobs that are blocked.
    pub blocked: i64,
    /// Jobs that succeeded.
    pub succeeded: i64,
    /// Jobs that failed permanently.
    pub failed: i64,
    /// Jobs that are dead letters.
    pub dead_letter: i64,
    /// Jobs that were canceled.
    pub canceled: i64,
    /// Jobs that were deleted, by retention or by request.
    pub purged: i64,
}

impl Counts {
    /// What is counted, in the order of the list.
    pub(crate) fn part(&self) -> (Uuid, &str, &str) {
        (self.tenant_id, &self.queue, &self.definition_key)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.queued += other.queued;
        self.running += other.running;
        self.scheduled += other.scheduled;
        self.blocked += other.blocked;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.dead_letter += other.dead_letter;
        self.canceled += other.canceled;
        self.purged += other.purged;
    }

    /// All jobs ever enqueued, from any source: existing and deleted ones.
    pub fn enqueued(&self) -> i64 {
        State::ALL.iter().map(|state| self.of(*state)).sum::<i64>() + self.purged
    }

    /// Returns the number of jobs in a state.
    pub fn of(&self, state: State) -> i64 {
        match state {
            State::Queued => self.queued,
            State::Running => self.running,
            State::Scheduled => self.scheduled,
            State::Blocked => self.blocked,
            State::Succeeded => self.succeeded,
            State::Failed => self.failed,
            State::DeadLetter => self.dead_letter,
            State::Canceled => self.canceled,
        }
    }
}

/// A live worker with a handler for a definition.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// for worker in queue.workers_for("resize").await? {
///     println!("{} on {}{}", worker.worker_id, worker.hostname, if worker.is_draining { " drains" } else { "" });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CapableWorker {
    /// The id of the worker.
    pub worker_id: String,
    /// The host on which the worker runs.
    pub hostname: String,
    /// The queues that it serves; empty means all.
    pub queues: Vec<String>,
    /// Whether the worker drains: it finishes its running jobs and claims no more.
    pub is_draining: bool,
}

/// One page of jobs, newest first, and the cursor of the next one.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::job::Filter;
///
/// let page = queue.list(&Filter::new(windlass::DEFAULT_TENANT)).await?;
/// println!("{} jobs{}", page.jobs.len(), if page.next.is_some() { " and more" } else { "" });
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The jobs of this page.
    pub jobs: Vec<Job>,
    /// For [`crate::Filter::older_than`] of the next page; none on the last page.
    pub next: Option<Uuid>,
    /// With a search text: the number of jobs that were searched. A search stops after a few thousand jobs, and `next`
    /// continues there.
    pub searched: Option<usize>,
}
