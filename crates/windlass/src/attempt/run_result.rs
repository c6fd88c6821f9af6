//! The result of one job's run, before any decision.

use super::done::{Done, Failure};
use crate::error::Error;
use crate::model::job::settle::{Outcome, Retry};
use crate::store::job::Report;
use crate::text::redact::Redactor;

/// The errors of attempts that did not end themselves. `tick.sql` has the same.
pub(crate) const TIMED_OUT: &str = "the attempt ran past its timeout";
pub(crate) const LEASE_EXPIRED: &str = "the worker's lease expired";

/// The result of one job's run, before any decision.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    pub(crate) done: Done,
    /// Data of the process in addition to the outcome, if a process ran.
    pub(crate) facts: Option<Box<ProcessFacts>>,
    /// The last reported progress of the run.
    pub(crate) progress: Option<Report>,
}

/// Data of the process that ran an attempt.
#[derive(Debug, Default)]
pub(crate) struct ProcessFacts {
    pub(crate) pid: Option<i32>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) max_rss_kb: Option<i64>,
    /// Already clean, redacted and truncated.
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

    /// Returns a failure: its next jobs cannot be enqueued, so it is not a success.
    pub(crate) fn not_followed(error: &Error) -> Self {
        Self::failed(Retry::ByPolicy, format!("the next jobs could not be enqueued: {error}"))
    }

    /// Whether it contains a text that could contain a secret.
    pub(crate) fn has_texts(&self) -> bool {
        self.error.is_some() || self.done.result.is_some() || self.done.artifact.is_some()
    }

    /// Returns the length of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts = [&self.error, &self.done.result, &self.done.artifact];
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// Returns the same without secrets in its texts, also those of the next jobs' payloads. The next jobs are unchanged: a
    /// job whose payload lost a part would run incorrectly.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        let payloads = self.done.next.iter().filter_map(|job| job.payload_text().ok());
        let payloads = payloads.filter_map(|text| serde_json::from_str(text).ok());
        let secrets: Vec<String> = payloads.flat_map(|payload| redactor.secrets_in(&payload)).collect();
        let with_next = (!secrets.is_empty()).then(|| redactor.with_values(secrets));
        let redactor = with_next.as_ref().unwrap_or(redactor);
        self.error = self.error.map(|error| redactor.text(&error).into_owned());
        self.done.result = self.done.result.map(|result| redactor.json_text(&result).into_owned());
        self.done.artifact = self.done.artifact.map(|artifact| redactor.json_text(&artifact).into_owned());
        self
    }
}

impl From<Result<Done, Failure>> for RunResult {
    fn from(result: Result<Done, Failure>) -> Self {
        match result {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::new_job::NewJob;
    use crate::text::redact::PLACEHOLDER;

    ///
    #[test]
    fn the_secrets_of_next_jobs_are_removed_from_the_result() {
        let next = NewJob::new("pay").payload(&json!({"card": {"token": "tok-4711-abc"}, "n": 1}));
        let result =
            json!({"sent": "used tok-4711-abc", "next_page_token": "p2", "log": "second pass: 300 rows"});
        let done = Done::new().result(&result).then(next);
        let redacted = RunResult::from(Ok(done)).redacted(&Redactor::default());
        let result: serde_json::Value = serde_json::from_str(&redacted.done.result.unwrap()).unwrap();
        let sent = format!("used {PLACEHOLDER}");
        let expected = json!({"sent": sent, "next_page_token": "p2", "log": "second pass: 300 rows"});
        assert_eq!(result, expected, "a result is data");
        assert!(
            redacted.done.next[0].payload_text().unwrap().contains("tok-4711-abc"),
            "it runs with its secret"
        );
    }
}
