//! How one job's run went, before anything is decided.

use super::done::{Done, Failure};
use crate::error::Error;
use crate::model::job::settle::{Outcome, Retry};
use crate::store::job::Report;
use crate::text::redact::Redactor;

/// How one job's run went, before anything is decided.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    pub(crate) done: Done,
    /// What the attempt leaves behind beside its outcome, if a process ran.
    pub(crate) facts: Option<Box<ProcessFacts>>,
    /// The run's last word of how far it was.
    pub(crate) progress: Option<Report>,
}

/// What is known of the process that ran an attempt.
#[derive(Debug, Default)]
pub(crate) struct ProcessFacts {
    pub(crate) pid: Option<i32>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) max_rss_kb: Option<i64>,
    /// Clean, redacted and cut already.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl RunResult {
    pub(crate) fn failed(retry: Retry, error: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed { retry },
            error: Some(error.into()),
            done: Done::default(),
            facts: None,
            progress: None,
        }
    }

    pub(crate) fn of(outcome: Outcome, error: impl Into<String>) -> Self {
        Self { outcome, error: Some(error.into()), done: Done::default(), facts: None, progress: None }
    }

    /// Its next jobs cannot be enqueued, so it is no success.
    pub(crate) fn not_followed(error: &Error) -> Self {
        Self::failed(Retry::ByPolicy, format!("the jobs that should follow could not be enqueued: {error}"))
    }

    /// Whether there is anything in it that could hold a secret.
    pub(crate) fn has_texts(&self) -> bool {
        self.error.is_some() || self.done.result.is_some() || self.done.artifact.is_some()
    }

    /// How long its texts are.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts = [&self.error, &self.done.result, &self.done.artifact];
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// The same without secrets in its texts. What follows is left as it is: a job whose payload lost a part would run wrong.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        if redactor.is_empty() {
            return self;
        }
        self.error = self.error.map(|error| redactor.text(&error).into_owned());
        self.done.result = self.done.result.map(|result| redactor.json_text(&result).into_owned());
        self.done.artifact = self.done.artifact.map(|artifact| redactor.json_text(&artifact).into_owned());
        self
    }
}

impl From<Result<Done, Failure>> for RunResult {
    fn from(answer: Result<Done, Failure>) -> Self {
        match answer {
            Err(failure) => Self::failed(failure.retry, failure.error),
            Ok(done) => {
                if let Err(error) = done.check() {
                    return Self::not_followed(&error);
                }
                let outcome = done.snooze.map_or(Outcome::Succeeded, |delay| Outcome::Snoozed { delay });
                Self { outcome, error: None, done, facts: None, progress: None }
            }
        }
    }
}
