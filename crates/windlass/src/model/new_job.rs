//! The description of a job to be: a definition's key, a payload, and what differs from the definition's policies.

mod check;
pub(crate) mod read;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::job::unique::Unique;
use crate::text::json::{self, JsonLimits};

/// What an enqueue answers: always a job's id, and whether that job was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    pub id: Uuid,
    /// None if the job that holds the key was purged: the key outlives it, and the job is not made again.
    pub state: Option<State>,
    /// Another job already holds this dedupe or idempotency key; `id` is that job's.
    pub is_duplicate: bool,
}

/// A job to be: a definition's key, a payload, and what differs from the definition's policies.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub(crate) definition_key: String,
    payload: Result<String>,
    pub(crate) options: JobOptions,
}

impl NewJob {
    pub fn new(definition_key: impl Into<String>) -> Self {
        Self {
            definition_key: definition_key.into(),
            payload: Ok("{}".to_owned()),
            options: JobOptions::default(),
        }
    }

    /// A payload that cannot be serialised or stored is reported by the enqueue.
    #[must_use]
    pub fn payload(mut self, payload: &impl Serialize) -> Self {
        self.payload = serde_json::to_string(payload)
            .map_err(|error| Error::refused("payload", format!("cannot be serialised: {error}")))
            .and_then(checked);
        self
    }

    /// A payload that is JSON text already.
    #[must_use]
    pub fn payload_json(mut self, payload: impl Into<String>) -> Self {
        self.payload = checked(payload.into());
        self
    }

    /// The same as named arguments of the SQL door: how a finishing job asks for its next ones.
    pub(crate) fn as_link(&self) -> ChainedJob<'_> {
        let options = &self.options;
        let mut named = serde_json::json!({
            "definition_key": self.definition_key,
            "queue": options.queue,
            "priority": options.priority,
            "scheduled_for": options.scheduled_for,
            "delay": options.delay.map(|delay| format!("{} seconds", delay.as_secs_f64())),
            "dedupe_key": options.dedupe_key,
            "uniqueness": options.unique,
            "idempotency_key": options.idempotency_key,
            "ordering_key": options.ordering_key,
            "depends_on": (!options.depends_on.is_empty()).then_some(&options.depends_on),
            "if_unmet": options.if_unmet.map(IfUnmet::as_str),
            "subject_type": options.subject_type,
            "subject_id": options.subject_id,
            "tags": (!options.tags.is_empty()).then_some(&options.tags),
            "correlation_id": options.correlation_id,
            "source_ref": options.source_ref,
            "max_attempts": options.max_attempts,
            "deadline": options.deadline,
            "created_by": options.created_by,
            "trace": options.trace,
            "job_id": options.id,
        });
        if let Some(fields) = named.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let payload = self.payload_text().ok().and_then(|text| serde_json::from_str(text).ok());
        ChainedJob { named, payload }
    }

    pub(crate) fn payload_text(&self) -> Result<&str> {
        self.payload.as_deref().map_err(Clone::clone)
    }
}

/// What differs from the definition's policies, one call each.
impl NewJob {
    /// The tenant; without one it is the tenant in force in the transaction, or the default tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.options.tenant = Some(tenant);
        self
    }

    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Lower runs first among the tenant's own jobs; clamped to the definition's bounds.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// The earliest start.
    #[must_use]
    pub fn scheduled_for(mut self, at: Timestamp) -> Self {
        self.options.scheduled_for = Some(at);
        self
    }

    /// The earliest start, counted from the database's clock.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.options.delay = Some(delay);
        self
    }

    /// One job per key, as the definition's uniqueness says; a duplicate answers with the job that holds the key.
    #[must_use]
    pub fn dedupe_key(mut self, key: impl Into<String>) -> Self {
        self.options.dedupe_key = Some(key.into());
        self
    }

    /// How long the dedupe key holds, if not as the definition says.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.options.unique = Some(unique);
        self
    }

    /// The same request sent again answers with the same job; another job under the same key is refused.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.options.idempotency_key = Some(key.into());
        self
    }

    /// Jobs with the same key run one after the other, in the order they were enqueued.
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.options.ordering_key = Some(key.into());
        self
    }

    /// Waits until the named job has ended; may be called several times.
    #[must_use]
    pub fn depends_on(mut self, job: Uuid) -> Self {
        self.options.depends_on.push(job);
        self
    }

    /// What becomes of this job if one it waits for does not succeed.
    #[must_use]
    pub fn if_unmet(mut self, policy: IfUnmet) -> Self {
        self.options.if_unmet = Some(policy);
        self
    }

    /// What the job is about: its jobs can be listed and purged together.
    #[must_use]
    pub fn subject(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.options.subject_type = Some(kind.into());
        self.options.subject_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.options.tags.push(tag.into());
        self
    }

    /// Groups the jobs of one request or event.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.options.correlation_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn source(mut self, source: Source, reference: Option<String>) -> Self {
        self.options.source = source;
        self.options.source_ref = reference;
        self
    }

    #[must_use]
    pub fn max_attempts(mut self, most: u16) -> Self {
        self.options.max_attempts = Some(i32::from(most));
        self
    }

    /// The instant by which the job must have ended: after it no attempt starts, and a running one is timed out.
    #[must_use]
    pub fn deadline(mut self, at: Timestamp) -> Self {
        self.options.deadline = Some(at);
        self
    }

    #[must_use]
    pub fn created_by(mut self, user: Uuid) -> Self {
        self.options.created_by = Some(user);
        self
    }

    /// A W3C traceparent, handed to the handler.
    #[must_use]
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.options.trace = Some(traceparent.into());
        self
    }

    /// Chooses the job's id; without one the queue makes a UUIDv7.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.options.id = Some(id);
        self
    }
}

/// Where a job comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    Manual,
    Event,
    Schedule,
    System,
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Event => "event",
            Self::Schedule => "schedule",
            Self::System => "system",
        }
    }

    /// The stored number; never reused.
    pub(crate) const fn code(self) -> i16 {
        match self {
            Self::Manual => 1,
            Self::Event => 2,
            Self::Schedule => 3,
            Self::System => 4,
        }
    }
}

/// What becomes of a waiting job when one it waits for ends without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnmet {
    /// It is canceled. The default for `depends_on`.
    Cancel,
    /// It runs all the same.
    Run,
    /// It goes on waiting, for an operator's retry. The default for `ordering_key`.
    Wait,
}

impl IfUnmet {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Run => "run",
            Self::Wait => "wait",
        }
    }
}

fn checked(text: String) -> Result<String> {
    json::checked(text, &JsonLimits::default()).map_err(|refused| Error::json("payload", refused))
}

/// A new job as a finishing one asks for it.
#[derive(Serialize)]
pub(crate) struct ChainedJob<'a> {
    #[serde(flatten)]
    named: serde_json::Value,
    /// As it was written: parsing it would round its large numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

/// Everything optional about a new job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobOptions {
    pub(crate) id: Option<Uuid>,
    pub(crate) tenant: Option<Uuid>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i32>,
    pub(crate) scheduled_for: Option<Timestamp>,
    pub(crate) delay: Option<Duration>,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) unique: Option<Unique>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) ordering_key: Option<String>,
    pub(crate) depends_on: Vec<Uuid>,
    pub(crate) if_unmet: Option<IfUnmet>,
    pub(crate) subject_type: Option<String>,
    pub(crate) subject_id: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) source: Source,
    pub(crate) source_ref: Option<String>,
    pub(crate) max_attempts: Option<i32>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) parent_id: Option<Uuid>,
    pub(crate) created_by: Option<Uuid>,
    pub(crate) trace: Option<String>,
}

impl JobOptions {
    pub(crate) fn needs_a_guard(&self) -> bool {
        self.scheduled_for.is_some()
            || self.delay.is_some()
            || self.dedupe_key.is_some()
            || self.idempotency_key.is_some()
            || self.ordering_key.is_some()
            || self.deadline.is_some()
            || !self.depends_on.is_empty()
    }

    fn has_no_extra(&self) -> bool {
        self.source == Source::Manual
            && self.tags.is_empty()
            && self.created_by.is_none()
            && self.parent_id.is_none()
            && self.source_ref.is_none()
            && self.correlation_id.is_none()
            && self.subject_type.is_none()
            && self.subject_id.is_none()
            && self.trace.is_none()
    }

    /// The columns that most jobs leave empty, as one JSON object, or nothing at all.
    pub(crate) fn extra(&self) -> Option<String> {
        if self.has_no_extra() {
            return None;
        }
        let extra = ExtraOptions {
            source: (self.source != Source::Manual).then(|| self.source.as_str()),
            created_by: self.created_by,
            parent_id: self.parent_id,
            source_ref: self.source_ref.as_deref(),
            correlation_id: self.correlation_id.as_deref(),
            subject_type: self.subject_type.as_deref(),
            subject_id: self.subject_id.as_deref(),
            trace: self.trace.as_deref(),
            tags: (!self.tags.is_empty()).then_some(&self.tags),
        };
        let text = serde_json::to_string(&extra).ok()?;
        (text != "{}").then_some(text)
    }
}

#[derive(Serialize)]
struct ExtraOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_ref: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a Vec<String>>,
}
