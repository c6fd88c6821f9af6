//! Definitions: the key of a kind of job, the schema of its payload and its policies. Registering a handler creates or
//! updates its definition; a job can override some of the policies.

mod fields;
mod policies;

use std::collections::BTreeMap;
use std::time::Duration;

use jsonschema::Validator;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::job::backoff::Backoff;
use crate::model::job::settle::{OnLost, OnTimeout};
use crate::model::job::state::State;
use crate::model::job::unique::Unique;
use crate::model::new_job::JobArgs;
use crate::text::redact::Redaction;

pub use fields::RANGES;
pub(crate) use fields::check_fields;
pub use policies::Policies;

/// A kind of job as declared in code. Fields that are not set keep their value in the database, or get the default.
///
/// ```
/// use std::time::Duration;
/// use windlass::Definition;
/// use windlass::job::{Backoff, OnLost, OnTimeout, State, Unique};
/// use windlass::redact::Redaction;
///
/// let definition = Definition::new("invoice.send")
///     .description("Sends an invoice by mail")
///     .arg_schema(serde_json::json!({ "type": "object", "required": ["invoice"] }))
///     .queue("mail")
///     .priority(50)
///     .timeout(Duration::from_secs(30), OnTimeout::Retry)
///     .on_lost(OnLost::Fail)
///     .max_attempts(10)
///     .max_lost(3)
///     .max_snoozes(100)
///     .max_running(20)
///     .start_deadline(Duration::from_secs(3600))
///     .backoff(Backoff::fixed(Duration::from_secs(60)))
///     .uniqueness(Unique::Forever)
///     .retention(State::Succeeded, Duration::from_secs(86_400))
///     .on_purge("invoice.delete")
///     .redaction(Redaction::new().key("iban"));
/// assert_eq!(definition.key(), "invoice.send");
/// ```
///
/// A handler declares its definition with [`Handler::definition`](crate::Handler::definition). A process that only enqueues can
/// declare one with [`Queue::define`](crate::Queue::define).
#[derive(Debug, Clone, Serialize)]
pub struct Definition {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arg_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_timeout: Option<OnTimeout>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_lost: Option<OnLost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_lost: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_snoozes: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_running: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_deadline_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uniqueness: Option<Unique>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    retention: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_purge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redaction: Option<Redaction>,
}

impl Definition {
    /// The definition of a payload type: its key, and its JSON Schema.
    ///
    /// ```
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Resize {}
    /// # impl windlass::JobArgs for Resize { const KEY: &'static str = "resize"; }
    /// use windlass::Definition;
    ///
    /// assert_eq!(Definition::of::<Resize>().key(), "resize");
    /// ```
    pub fn of<A: JobArgs>() -> Self {
        Self::new(A::KEY).with_schema_of::<A>()
    }

    /// The same with the schema of a payload type, unless it has one.
    pub(crate) fn with_schema_of<A: JobArgs>(self) -> Self {
        if self.arg_schema.is_some() {
            return self;
        }
        self.arg_schema(schemars::schema_for!(A).to_value())
    }

    /// A definition with this key. Its payload can be any JSON until [`Self::arg_schema`] restricts it.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            description: None,
            arg_schema: None,
            queue: None,
            priority: None,
            timeout_seconds: None,
            on_timeout: None,
            on_lost: None,
            max_attempts: None,
            max_lost: None,
            max_snoozes: None,
            max_running: None,
            start_deadline_seconds: None,
            backoff: None,
            uniqueness: None,
            retention: BTreeMap::new(),
            on_purge: None,
            redaction: None,
        }
    }

    /// Sets the description shown to people.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the JSON Schema of the payload; that of a handler comes from its argument type.
    #[must_use]
    pub fn arg_schema(mut self, schema: Value) -> Self {
        self.arg_schema = Some(schema);
        self
    }

    /// Sets the queue of its jobs (default `default`).
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the priority of its jobs, from 0 to 1000 (default 100); lower numbers run first.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the timeout of an attempt, and what happens to the job after it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration, then: OnTimeout) -> Self {
        self.timeout_seconds = Some(timeout.as_secs().max(1));
        self.on_timeout = Some(then);
        self
    }

    /// Sets what happens to a job whose worker was lost.
    #[must_use]
    pub fn on_lost(mut self, then: OnLost) -> Self {
        self.on_lost = Some(then);
        self
    }

    /// Sets the maximum number of failures; then a job becomes a dead letter.
    #[must_use]
    pub fn max_attempts(mut self, most: u16) -> Self {
        self.max_attempts = Some(most);
        self
    }

    /// Sets how many times a job can lose its worker before it becomes a dead letter (reason `poison`).
    #[must_use]
    pub fn max_lost(mut self, most: u16) -> Self {
        self.max_lost = Some(most);
        self
    }

    /// Sets the maximum number of snoozes; then a job fails.
    #[must_use]
    pub fn max_snoozes(mut self, most: u16) -> Self {
        self.max_snoozes = Some(most);
        self
    }

    /// Sets the maximum number of its jobs that run at the same time, over all tenants and workers; the others stay
    /// queued.
    #[must_use]
    pub fn max_running(mut self, most: u32) -> Self {
        self.max_running = Some(most);
        self
    }

    /// Sets the time within which a due job must start; otherwise it fails.
    #[must_use]
    pub fn start_deadline(mut self, within: Duration) -> Self {
        self.start_deadline_seconds = Some(within.as_secs().max(1));
        self
    }

    /// Sets the rule that computes the delay before a retry.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Sets how long a dedupe key is held.
    #[must_use]
    pub fn uniqueness(mut self, unique: Unique) -> Self {
        self.uniqueness = Some(unique);
        self
    }

    /// Sets how long a finished job of this state is kept; without a rule it is kept forever.
    #[must_use]
    pub fn retention(mut self, state: State, keep: Duration) -> Self {
        self.retention.insert(state.as_str(), keep.as_secs());
        self
    }

    /// Sets the definition whose job deletes the artifact of an expired job before the job is purged. It gets
    /// `{"job_id", "definition_key", "artifact"}`; the expired job is deleted after it has succeeded.
    #[must_use]
    pub fn on_purge(mut self, definition_key: impl Into<String>) -> Self {
        self.on_purge = Some(definition_key.into());
        self
    }

    /// Sets what is redacted in its jobs, in addition to the defaults: see [`Redaction`].
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = Some(redaction);
        self
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(backoff) = &self.backoff {
            backoff.validate().map_err(|invalid| {
                Error::refused(format!("backoff.{}", invalid.field), format!("must be {}", invalid.expected))
            })?;
        }
        if let Some(schema) = &self.arg_schema {
            validator(&schema.to_string())?;
        }
        self.redaction.as_ref().map_or(Ok(()), Redaction::check)
    }
}

/// Keywords that do not restrict values.
const ANNOTATIONS: [&str; 4] = ["$schema", "title", "description", "examples"];

/// Compiles a schema: formats are asserted, nothing is fetched, and patterns run in linear time. Returns none for a
/// schema that accepts everything.
pub(crate) fn validator(schema: &str) -> Result<Option<Validator>> {
    let schema: Value =
        serde_json::from_str(schema).map_err(|error| Error::refused("arg_schema", error.to_string()))?;
    let accepts_all = match &schema {
        Value::Object(keywords) => keywords.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str())),
        other => *other == Value::Bool(true),
    };
    if accepts_all {
        return Ok(None);
    }
    jsonschema::options()
        .should_validate_formats(true)
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(&schema)
        .map(Some)
        .map_err(|error| Error::refused("arg_schema", error.to_string()))
}

pub(crate) fn check_payload(validator: &Validator, payload: &str) -> Result<()> {
    let payload: Value =
        serde_json::from_str(payload).map_err(|error| Error::refused("payload", error.to_string()))?;
    let fault = |error: jsonschema::ValidationError<'_>| {
        (error.instance_path().to_string(), error.masked().to_string())
    };
    let faults: Vec<_> = validator.iter_errors(&payload).take(MAX_FAULTS).map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::PayloadRefused { faults }) }
}

/// The number of errors in a payload that are reported.
const MAX_FAULTS: usize = 20;

#[cfg(test)]
mod tests {
    use super::{check_payload, validator};

    /// X-18.
    #[test]
    fn a_schema_reads_nothing_external() {
        let canary = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        canary.set_nonblocking(true).unwrap();
        let address = canary.local_addr().unwrap();
        for reference in [
            format!("http://{address}/schema.json"),
            "file:///etc/passwd".to_owned(),
            "/etc/passwd".to_owned(),
            "https://json-schema.org/draft/1999/schema".to_owned(),
        ] {
            let schema = serde_json::json!({"$ref": reference});
            assert!(validator(&schema.to_string()).is_err(), "{reference}");
        }
        assert!(canary.accept().is_err(), "a schema was requested");
    }

    /// X-18. A backtracking engine would take too long.
    #[test]
    fn formats_are_asserted_and_no_pattern_backtracks() {
        let schema = r#"{"type": "string", "format": "uuid"}"#;
        let uuid = validator(schema).unwrap().unwrap();
        assert!(check_payload(&uuid, "\"-x\"").is_err() && check_payload(&uuid, "\"--config=x\"").is_err());
        assert!(check_payload(&uuid, "\"6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09\"").is_ok());
        for pattern in ["^(a+)+$", "^(a|aa)+$", "^(.*)*=x$", "(x+x+)+y"] {
            let schema = serde_json::json!({"type": "string", "pattern": pattern});
            let slow = validator(&schema.to_string()).unwrap().unwrap();
            assert!(check_payload(&slow, &format!("\"{}!\"", "ax".repeat(20_000))).is_err(), "{pattern}");
        }
        let looks_back = serde_json::json!({"type": "string", "pattern": "^(a)\\1(?=b)"});
        assert!(validator(&looks_back.to_string()).is_err(), "patterns that need backtracking are rejected");
    }
}
