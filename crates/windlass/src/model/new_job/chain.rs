//! A new job that is enqueued by the completion of another job.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{IfUnmet, NewJob};

impl NewJob {
    /// The job as named arguments of the SQL function that enqueues the next jobs of a completed one.
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
}

/// A new job that is enqueued by the completion of another job.
#[derive(Serialize)]
pub(crate) struct ChainedJob<'a> {
    #[serde(flatten)]
    named: serde_json::Value,
    /// The original text, because parsing it would round large numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}
