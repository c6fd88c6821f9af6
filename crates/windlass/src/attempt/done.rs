//! The result of a run: done, with its output, or failed, and the meaning for the job.

use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::job::settle::Retry;
use crate::model::new_job::NewJob;
use crate::text;
use crate::text::json::JsonLimits;

/// The maximum number of jobs that one completion may enqueue. They are written in the same transaction as the
/// completion, which must stay short.
pub(crate) const MAX_NEXT: usize = 1000;
/// The maximum number of their dependencies together.
const MAX_NEXT_NEEDS: usize = 5000;

/// The end of a run that did not fail: success, with its output, or a request to run again later.
///
/// ```
/// use std::time::Duration;
/// use windlass::{Done, NewJob};
///
/// let success = Done::new()
///     .result(&serde_json::json!({ "pages": 12 }))
///     .artifact(&serde_json::json!({ "path": "reports/7.pdf" }))
///     .then(NewJob::new("report.send"));
/// let not_yet = Done::snooze(Duration::from_secs(30));
/// # let _ = (success, not_yet);
/// ```
#[derive(Debug, Default)]
pub struct Done {
    pub(crate) result: Option<String>,
    pub(crate) artifact: Option<String>,
    pub(crate) next: Vec<NewJob>,
    pub(crate) snooze: Option<Duration>,
    pub(crate) is_settled: bool,
    /// The attempt has not ended: another process continues it under a lease of this length.
    pub(crate) hand_over: Option<Duration>,
}

impl Done {
    /// Returns a success without a result.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the result, which is stored with the job. Characters that Postgres cannot store are replaced; a value that
    /// is too large is dropped.
    #[must_use]
    pub fn result(mut self, result: &impl Serialize) -> Self {
        self.result = Some(storable(result));
        self
    }

    /// Sets a reference to something that the job created; stored only if the job succeeds.
    #[must_use]
    pub fn artifact(mut self, artifact: &impl Serialize) -> Self {
        self.artifact = Some(storable(artifact));
        self
    }

    /// Adds a job to enqueue in the same statement that records this success: both or neither. One success may enqueue
    /// up to 1,000 jobs; with more, or if one of them is refused (the tenant's quota is reached, the definition does
    /// not exist), the attempt fails.
    #[must_use]
    pub fn then(mut self, job: impl Into<NewJob>) -> Self {
        self.next.push(job.into());
        self
    }

    /// Snoozes the job: it runs again after this time. Not counted as a failure; limited by `max_snoozes` of the
    /// definition and the job's deadline.
    pub fn snooze(delay: Duration) -> Self {
        Self { snooze: Some(delay), ..Self::default() }
    }

    /// A next job that cannot be enqueued is an error of this run and is not ignored.
    pub(crate) fn check(&self) -> Result<()> {
        if self.next.len() > MAX_NEXT {
            let message = format!("a job can enqueue at most {MAX_NEXT} next jobs, not {}", self.next.len());
            return Err(Error::refused("next", message));
        }
        let needs: usize = self.next.iter().map(|job| job.options.depends_on.len()).sum();
        if needs > MAX_NEXT_NEEDS {
            let message =
                format!("the next jobs can have at most {MAX_NEXT_NEEDS} dependencies together, not {needs}");
            return Err(Error::refused("next", message));
        }
        self.next.iter().try_for_each(|job| job.payload_text().map(drop))
    }
}

fn storable(value: &impl Serialize) -> String {
    text::storable_json(value, &JsonLimits::default())
}

/// The end of a run that failed, and its meaning for the job.
///
/// Any error converts into a failure that is retried, so `?` works in a handler.
///
/// ```
/// use std::time::Duration;
/// use windlass::Failure;
///
/// let again = Failure::retry("the disk is full");
/// let later = Failure::retry_after(Duration::from_secs(300), "rate limited");
/// let never = Failure::permanent("the account was closed");
/// let converted = Failure::from(std::io::Error::other("connection reset"));
/// # let _ = (again, later, never, converted);
/// ```
#[derive(Debug)]
pub struct Failure {
    pub(crate) error: String,
    pub(crate) retry: Retry,
}

impl Failure {
    /// Retries with the backoff of the definition, while attempts are left.
    pub fn retry(error: impl std::fmt::Display) -> Self {
        Self { error: error.to_string(), retry: Retry::ByPolicy }
    }

    /// Retries after this time, while attempts are left.
    pub fn retry_after(delay: Duration, error: impl std::fmt::Display) -> Self {
        Self { error: error.to_string(), retry: Retry::After(delay) }
    }

    /// Fails the job permanently.
    pub fn permanent(error: impl std::fmt::Display) -> Self {
        Self { error: error.to_string(), retry: Retry::Permanent }
    }
}

/// Any error is retried unless the handler specifies otherwise.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self { error: message, retry: Retry::ByPolicy }
    }
}
