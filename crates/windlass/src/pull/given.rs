//! What a pull worker is given: jobs, renewals, and its standing.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// What a call that carries a fence returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held<T> {
    /// The lease is held, and this is the result.
    Held(T),
    /// The fence is stale: the lease ran out and was taken, or the attempt has ended. Nothing was changed.
    LeaseLost,
}

/// A job that was given to a pull worker.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PulledJob {
    /// The id of the job.
    pub id: Uuid,
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The key of its definition.
    pub definition_key: String,
    /// The name of its queue.
    pub queue: String,
    /// The JSON input.
    pub payload: Box<RawValue>,
    /// The number of the attempt, from 1.
    pub attempt: i32,
    /// The most failures before the job is a dead letter.
    pub max_attempts: i16,
    /// Failures counted before this attempt.
    pub failures: i16,
    /// To be sent with every call about this attempt.
    pub fence: String,
    /// When the lease expires without a further heartbeat.
    pub lease_expires_at: Timestamp,
    /// The length of the lease in seconds.
    pub lease_seconds: i32,
    /// When the attempt is timed out, heartbeats or not.
    pub deadline: Timestamp,
    /// The type of the entity that the job is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_type: Option<String>,
    /// The id of the entity that the job is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_id: Option<String>,
    /// The id that groups the jobs of one request or event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What the source refers to, such as the id of a trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<String>,
    /// The W3C traceparent given at enqueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The tags of the job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The job whose completion enqueued this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<Uuid>,
}

/// What a granted heartbeat returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Beaten {
    /// When the lease expires without a further heartbeat.
    pub lease_expires_at: Timestamp,
    /// The length of the lease in seconds.
    pub lease_seconds: i32,
    /// Stop the work and say so with any ending: the attempt then ends as canceled.
    pub cancel_requested: bool,
}

/// Who a pull worker is to the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Registered {
    /// The id of the worker.
    pub worker_id: String,
    /// An operator asked it to take no more jobs; its claims stay empty.
    pub is_quiet: bool,
}
