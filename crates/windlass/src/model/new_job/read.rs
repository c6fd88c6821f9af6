//! A new job in JSON: the next job of a completed one, over HTTP or from a command.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{IfUnmet, NewJob};
use crate::error::{Error, Result};
use crate::model::job::unique::Unique;

impl NewJob {
    /// Parses `{"definition_key": …, "payload": …, …}`; an unknown field is an error that contains its name.
    ///
    /// ```
    /// use windlass::NewJob;
    ///
    /// assert!(NewJob::from_json(r#"{ "definition_key": "resize", "payload": { "width": 640 } }"#).is_ok());
    /// assert!(NewJob::from_json(r#"{ "definition_key": "resize", "colour": "red" }"#).is_err());
    /// ```
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::refused("job", error.to_string()))
    }
}

/// The fields of [`NewJob`] under their own names; durations are `…_seconds`.
impl<'de> Deserialize<'de> for NewJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer)?.read().map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    definition_key: String,
    payload: Option<Box<RawValue>>,
    queue: Option<String>,
    priority: Option<i32>,
    scheduled_for: Option<Timestamp>,
    delay_seconds: Option<f64>,
    dedupe_key: Option<String>,
    uniqueness: Option<Unique>,
    idempotency_key: Option<String>,
    ordering_key: Option<String>,
    #[serde(default)]
    depends_on: Vec<Uuid>,
    if_unmet: Option<WrittenIfUnmet>,
    subject_type: Option<String>,
    subject_id: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    correlation_id: Option<String>,
    max_attempts: Option<u16>,
    deadline: Option<Timestamp>,
    trace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenIfUnmet {
    Cancel,
    Run,
    Wait,
}

impl Written {
    fn read(self) -> Result<NewJob> {
        let mut job = NewJob::new(self.definition_key);
        if let Some(payload) = self.payload {
            job = job.payload_json(payload.get());
        }
        let options = &mut job.options;
        options.queue = self.queue;
        options.priority = self.priority;
        options.scheduled_for = self.scheduled_for;
        options.delay = self.delay_seconds.map(|seconds| duration("delay_seconds", seconds)).transpose()?;
        options.dedupe_key = self.dedupe_key;
        options.unique = self.uniqueness;
        options.idempotency_key = self.idempotency_key;
        options.ordering_key = self.ordering_key;
        options.depends_on = self.depends_on;
        options.if_unmet = self.if_unmet.map(|policy| match policy {
            WrittenIfUnmet::Cancel => IfUnmet::Cancel,
            WrittenIfUnmet::Run => IfUnmet::Run,
            WrittenIfUnmet::Wait => IfUnmet::Wait,
        });
        options.subject_type = self.subject_type;
        options.subject_id = self.subject_id;
        options.tags = self.tags;
        options.correlation_id = self.correlation_id;
        options.max_attempts = self.max_attempts.map(i32::from);
        options.deadline = self.deadline;
        options.trace = self.trace;
        job.check()?;
        Ok(job)
    }
}

/// Converts seconds to a duration.
pub(crate) fn duration(field: &str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= NewJob::MAX_DELAY).ok_or_else(
        || {
            let most = NewJob::MAX_DELAY.as_secs();
            Error::refused(field, format!("must be a number of seconds between 0 and {most} (ten years)"))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::NewJob;

    #[test]
    fn a_job_is_parsed_from_json_with_its_payload_unchanged() {
        let job = NewJob::from_json(
            r#"{"definition_key": "enrich", "payload": {"n": 12345678901234567890.10}, "delay_seconds": 1.5, "tags": ["a"]}"#,
        );
        let job = job.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(job.definition_key, "enrich");
        assert_eq!(job.payload_text().ok(), Some(r#"{"n": 12345678901234567890.10}"#));
        assert_eq!(job.options.delay.map(|delay| delay.as_millis()), Some(1500));
    }

    #[test]
    fn an_invalid_job_is_rejected_by_field() {
        let ids = vec!["00000000-0000-0000-0000-000000000000"; 101];
        let many = format!(r#"{{"definition_key": "a", "depends_on": {ids:?}}}"#);
        for (text, word) in [
            ("{}", "definition_key"),
            (r#"{"definition_key": "a", "colour": 1}"#, "colour"),
            (r#"{"definition_key": "a", "delay_seconds": -1}"#, "delay_seconds"),
            (r#"{"definition_key": ""}"#, "definition_key"),
            (r#"{"definition_key": "a", "if_unmet": "maybe"}"#, "maybe"),
            (r#"{"definition_key": "a", "subject_type": "post"}"#, "subject_id"),
            (r#"{"definition_key": "a", "subject_id": "7"}"#, "subject_type"),
            (r#"{"definition_key": "a", "payload": "\u0000"}"#, "NUL"),
            (many.as_str(), "depends_on"),
        ] {
            let Err(error) = NewJob::from_json(text) else { panic!("{text} was accepted") };
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
