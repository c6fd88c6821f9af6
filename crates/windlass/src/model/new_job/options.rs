//! The optional fields of a new job, and those that most jobs leave empty.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{IfUnmet, Source};
use crate::model::job::unique::Unique;

/// The optional fields of a new job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobOptions {
    pub(crate) id: Option<Uuid>,
    pub(crate) tenant: Option<Uuid>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i32>,
    pub(crate) scheduled_for: Option<Timestamp>,
    pub(crate) delay: Option<Duration>,
    pub(crate) dedupe_key: Option<String>,
    /// The dedupe key is a digest of the payload, so it changes with it.
    pub(crate) is_keyed_by_payload: bool,
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

    /// The columns that most jobs leave empty, as one JSON object; none if all are empty.
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
