//! Reports as values: activity over time, durations, and the errors of dead letters.

mod error_group;
mod headline;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

pub use error_group::ErrorGroup;
pub(crate) use error_group::gather;
pub use headline::headline;

/// The maximum number of dead letters that are grouped. Older ones are only in the counters.
pub const DEAD_LETTERS_SEEN: u16 = 2000;

/// The activity of one queue during one span of time.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// let since = reading.now().await? - jiff::SignedDuration::from_mins(10);
/// for span in reading.activity(since, 60).await? {
///     println!("{} {}: {} succeeded, {} failed", span.from, span.queue, span.succeeded, span.failed);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Activity {
    /// The start of the span.
    pub from: Timestamp,
    /// The name of the queue.
    pub queue: String,
    /// Attempts that succeeded.
    pub succeeded: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// The maximum number of queued jobs.
    pub queued: i64,
    /// Jobs that were running at the end of the span.
    pub running: i64,
}

/// A finished attempt.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for run in reading.runs(&[windlass::DEFAULT_TENANT], 50).await? {
///     println!("{}: waited {:?} s, ran {:?} s", run.definition_key, run.waited(), run.lasted());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// The id of the job.
    pub job_id: Uuid,
    /// The number of the attempt.
    pub attempt: i32,
    /// The name of its queue.
    pub queue: String,
    /// The key of its definition.
    pub definition_key: String,
    /// How the attempt ended.
    pub outcome: String,
    /// When it became ready; known only for first attempts.
    pub ready_at: Option<Timestamp>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl Run {
    /// Returns the seconds between ready and started.
    pub fn waited(&self) -> Option<f64> {
        Some(self.started_at?.duration_since(self.ready_at?).as_secs_f64().max(0.0))
    }

    /// Returns the seconds that it ran.
    pub fn lasted(&self) -> Option<f64> {
        Some(self.finished_at.duration_since(self.started_at?).as_secs_f64().max(0.0))
    }
}

/// A dead letter and its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub(crate) struct DeadLetter {
    /// The id of the job.
    pub job_id: Uuid,
    /// The key of its definition.
    pub definition_key: String,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How many attempts it had.
    pub attempts: i32,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// The error of the last attempt.
    pub error_text: Option<String>,
}
