//! The results for a pull worker: jobs, renewals, and its registration.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::store::pull::Dealt;

/// The result of a call with a fence.
///
/// ```
/// use windlass::job::State;
/// use windlass::pull::Held;
///
/// fn report(ended: Held<State>) -> String {
///     ended.value().map_or("another worker runs it".to_owned(), |state| format!("the job is {state}"))
/// }
/// assert_eq!(report(Held::Held(State::Succeeded)), "the job is succeeded");
/// assert_eq!(report(Held::LeaseLost), "another worker runs it");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Held<T> {
    /// The lease is held, and this is the result.
    Held(T),
    /// The fence is stale: the lease expired and the job was recovered, or the attempt has ended. Nothing was changed.
    LeaseLost,
}

impl<T> Held<T> {
    /// Returns the result; none if the lease was lost.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Held(value) => Some(value),
            Self::LeaseLost => None,
        }
    }
}

/// A job that was assigned to a pull worker.
///
/// ```no_run
/// # async fn example(pull: &windlass::pull::Pull, caller: &windlass::pull::Puller) -> windlass::Result<()> {
/// use windlass::pull::Claim;
///
/// for job in pull.claim(caller, Claim::new(["resize"])).await? {
///     println!("{} {}, attempt {}, until {}", job.id, job.payload, job.attempt, job.deadline);
/// }
/// # Ok(())
/// # }
/// ```
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
    /// The maximum number of failures before the job becomes a dead letter.
    pub max_attempts: i16,
    /// Failures before this attempt.
    pub failures: i16,
    /// Sent with every call about this attempt.
    pub fence: String,
    /// When the lease expires without a further heartbeat.
    pub lease_expires_at: Timestamp,
    /// The length of the lease in seconds.
    pub lease_seconds: i32,
    /// When the attempt times out, regardless of heartbeats.
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

/// The result of a successful heartbeat.
///
/// ```no_run
/// # async fn example(pull: &windlass::pull::Pull, caller: &windlass::pull::Puller, job: &windlass::pull::PulledJob) -> windlass::Result<()> {
/// use windlass::pull::{Heartbeat, Held};
///
/// match pull.heartbeat(caller, job.id, &job.fence, &Heartbeat::default()).await? {
///     Held::Held(reply) if reply.cancel_requested => println!("stop, and release the job"),
///     Held::Held(reply) => println!("held until {}", reply.lease_expires_at),
///     _ => println!("stop: another worker runs it"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HeartbeatReply {
    /// When the lease expires without a further heartbeat.
    pub lease_expires_at: Timestamp,
    /// The length of the lease in seconds.
    pub lease_seconds: i32,
    /// Stop the work and end the attempt with any result: it then ends as canceled.
    pub cancel_requested: bool,
}

/// The registration of a pull worker.
///
/// ```no_run
/// # async fn example(pull: &windlass::pull::Pull, caller: &windlass::pull::Puller) -> windlass::Result<()> {
/// use windlass::pull::WorkerInfo;
///
/// let registered = pull.register(caller, &WorkerInfo::default()).await?;
/// if registered.is_draining {
///     println!("{} must not claim jobs", registered.worker_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Registered {
    /// The id of the worker.
    pub worker_id: String,
    /// An operator drained the worker; its claims return no jobs.
    pub is_draining: bool,
}

/// A claimed job as its pull worker gets it.
pub(super) fn job_of(one: Dealt, queue: String, lease_seconds: i32) -> PulledJob {
    let claimed = one.claimed;
    PulledJob {
        id: claimed.fence.job,
        tenant_id: claimed.fence.tenant,
        definition_key: claimed.definition_key.to_string(),
        queue,
        payload: RawValue::from_string(claimed.payload).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        attempt: claimed.fence.attempt,
        max_attempts: claimed.budget.max_attempts,
        failures: claimed.budget.failures,
        fence: claimed.fence.encode(),
        lease_expires_at: one.lease_expires_at,
        lease_seconds,
        deadline: one.times_out_at,
        subject_type: claimed.extra.subject_type,
        subject_id: claimed.extra.subject_id,
        correlation_id: claimed.extra.correlation_id,
        source_ref: claimed.extra.source_ref,
        trace: claimed.extra.trace,
        tags: claimed.extra.tags.unwrap_or_default(),
        parent_id: claimed.extra.parent_id,
    }
}
