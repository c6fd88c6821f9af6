//! The types of the library as the OpenAPI document describes them. The library does not depend on OpenAPI; a test compares these
//! fields with real responses.

#![allow(dead_code, reason = "only the OpenAPI generator reads them")]

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// What a change of a job returns.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the value is the library's own")]
pub(crate) enum ChangedJob {
    /// For a credential with `jobs:read`.
    Readable(Box<Job>),
    /// For any other.
    Written(WrittenJob),
}

/// The job after a change, for a credential without `jobs:read`.
#[derive(Serialize, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenJob {
    id: Uuid,
    #[schema(example = "canceled")]
    status: String,
}

/// A job with its current status.
#[derive(Serialize, ToSchema)]
pub(crate) struct Job {
    id: Uuid,
    tenant_id: Uuid,
    definition_id: Uuid,
    #[schema(example = "sync-dropbox")]
    definition_key: String,
    /// manual, event, schedule or system
    source: String,
    source_ref: Option<String>,
    /// scheduled, blocked, queued, running, succeeded, failed, dead_letter or canceled
    #[schema(example = "succeeded")]
    status: String,
    priority: i32,
    #[schema(value_type = Value)]
    payload: serde_json::Value,
    dedupe_key: Option<String>,
    correlation_id: Option<String>,
    #[schema(format = DateTime)]
    scheduled_for: String,
    #[schema(format = DateTime)]
    queued_at: String,
    /// The first start of any attempt.
    #[schema(format = DateTime)]
    started_at: Option<String>,
    #[schema(format = DateTime)]
    last_started_at: Option<String>,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    attempt_count: i32,
    max_attempts: i32,
    #[schema(format = DateTime)]
    lease_expires_at: Option<String>,
    /// The worker that runs it, or that ran it last.
    claimed_by_worker: Option<String>,
    last_error: Option<String>,
    created_by: Option<Uuid>,
    queue: String,
    #[schema(value_type = Value)]
    result: Option<serde_json::Value>,
    #[schema(value_type = Value)]
    artifact: Option<serde_json::Value>,
    progress_percent: Option<f32>,
    progress_message: Option<String>,
    subject_type: Option<String>,
    subject_id: Option<String>,
    tags: Vec<String>,
    trace: Option<String>,
    parent_id: Option<Uuid>,
    ordering_key: Option<String>,
    #[schema(format = DateTime)]
    deadline: Option<String>,
    #[schema(format = DateTime)]
    cancel_requested_at: Option<String>,
    /// Why it ended, if the status alone does not show it: poison, expired, dependency, …
    reason: Option<String>,
}

/// One attempt of a job.
#[derive(Serialize, ToSchema)]
pub(crate) struct Attempt {
    id: Uuid,
    tenant_id: Uuid,
    job_id: Uuid,
    attempt_no: i32,
    worker_id: Option<String>,
    pid: Option<i32>,
    #[schema(format = DateTime)]
    started_at: Option<String>,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    signal: Option<i32>,
    /// The peak memory, in kilobytes.
    max_rss_kb: Option<i64>,
    /// The last reported progress.
    progress_percent: Option<f32>,
    progress_message: Option<String>,
    /// running, succeeded, failed, timeout, canceled, lost, snoozed or released
    status: String,
    stdout_tail: Option<String>,
    stderr_tail: Option<String>,
    error_text: Option<String>,
    reason: Option<String>,
}

/// Why a job is not running.
#[derive(Serialize, ToSchema)]
pub(crate) struct Why {
    status: String,
    /// The first of `reasons`.
    reason: Reason,
    reasons: Vec<Reason>,
}

/// One reason why a job is not running, or that it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Reason {
    /// Stable, such as not_due, waits_for_job, queue_paused, no_worker_for_definition, behind_earlier_jobs, running, finished.
    #[schema(example = "no_worker_for_definition")]
    code: String,
    #[schema(example = "no live worker has a handler for \"sync-dropbox\"")]
    message: String,
    /// How to resolve it.
    #[schema(example = "start a worker with a handler or a command for \"sync-dropbox\"")]
    remedy: String,
}

/// Jobs by status.
#[derive(Serialize, ToSchema)]
pub(crate) struct StatusCounts {
    scheduled: i64,
    blocked: i64,
    queued: i64,
    running: i64,
    succeeded: i64,
    failed: i64,
    dead_letter: i64,
    canceled: i64,
}

/// Jobs by status, and the age of the oldest queued one.
#[derive(Serialize, ToSchema)]
pub(crate) struct Summary {
    queued: i64,
    running: i64,
    scheduled: i64,
    blocked: i64,
    succeeded: i64,
    failed: i64,
    dead_letter: i64,
    canceled: i64,
    oldest_queued_age_seconds: Option<f64>,
}

/// The job counts of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct TenantSummary {
    tenant_id: Uuid,
    counts: StatusCounts,
    running: i64,
    /// Null if no job is queued.
    oldest_queued_age_seconds: Option<f64>,
    queues: std::collections::BTreeMap<String, Summary>,
    definitions: std::collections::BTreeMap<String, Summary>,
}

/// The job counts of all tenants.
#[derive(Serialize, ToSchema)]
pub(crate) struct Overview {
    all: Summary,
    tenants: std::collections::BTreeMap<Uuid, Summary>,
    queues: std::collections::BTreeMap<String, Summary>,
    definitions: std::collections::BTreeMap<String, Summary>,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tenant {
    id: Uuid,
    #[schema(example = "acme")]
    slug: String,
    #[schema(example = "Acme Ltd")]
    name: String,
    /// active, suspended or deleting
    status: String,
    weight: i32,
    timezone: String,
    max_queued: Option<i64>,
    /// The maximum number of jobs that run at the same time; null for no limit.
    max_running: Option<i32>,
    requests_per_minute: Option<i32>,
    /// The maximum number of lanes: combinations of definition, queue and priority.
    max_lanes: i32,
    /// The maximum number of queue names.
    max_queue_names: i32,
    /// The maximum number of triggers.
    max_triggers: i32,
    /// The number of deleted jobs, while the tenant is being deleted.
    purged_jobs: i64,
    /// What blocks the deletion, if anything.
    #[schema(example = "some of its data is under legal hold")]
    purge_blocked: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// An API token, without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct Token {
    /// All zeros for tokens of the installation.
    tenant_id: Uuid,
    id: String,
    /// api, worker or admin
    kind: String,
    name: String,
    role: String,
    scopes: Option<Vec<String>>,
    created_by: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    replaced_by: Option<String>,
}

/// A person with a role in a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Member {
    tenant_id: Uuid,
    user_id: Uuid,
    email: String,
    name: String,
    role: String,
    is_active: bool,
    #[schema(format = DateTime)]
    created_at: String,
}

/// An open invitation.
#[derive(Serialize, ToSchema)]
pub(crate) struct Invitation {
    tenant_id: Uuid,
    id: Uuid,
    email: String,
    role: String,
    created_by: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// An open password reset link.
#[derive(Serialize, ToSchema)]
pub(crate) struct PasswordReset {
    /// The id of the account.
    user_id: Uuid,
    email: String,
    /// The tenant whose administrator created the link; nil for the installation.
    tenant_id: Uuid,
    created_by: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// The last entry of one hash chain of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditHead {
    /// All zeros for the chain of the installation.
    tenant_id: Uuid,
    #[schema(minimum = 1)]
    position: i64,
    /// SHA-256 of the whole chain up to here, in hex.
    #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    hash: String,
    #[schema(format = DateTime)]
    sealed_at: String,
}

/// A fault in the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditFault {
    tenant_id: Uuid,
    /// The position in the chain of the tenant.
    position: Option<i64>,
    audit_id: Option<i64>,
    problem: String,
}

/// A worker process.
#[derive(Serialize, ToSchema)]
pub(crate) struct Worker {
    worker_id: String,
    hostname: String,
    version: String,
    /// Empty means all.
    queues: Vec<String>,
    definition_keys: Vec<String>,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    last_seen_at: String,
    #[schema(format = DateTime)]
    lease_expires_at: String,
    lease_seconds: i32,
    running_count: i32,
    is_draining: bool,
    #[schema(format = DateTime)]
    stopped_at: Option<String>,
    #[schema(value_type = Value)]
    metadata: serde_json::Value,
    /// active, draining, stale (its lease has expired), lost (its jobs were given to other workers) or stopped
    status: String,
    /// It has missed heartbeats without having stopped: it is stale or lost.
    is_stale: bool,
    seen_seconds_ago: f64,
}

/// One entry of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditEntry {
    id: i64,
    #[schema(format = DateTime)]
    at: String,
    tenant_id: Uuid,
    #[schema(example = "token:4f0c9be1a7d2e853")]
    actor: String,
    role: Option<String>,
    #[schema(example = "job.cancel")]
    action: String,
    target: String,
    /// done or denied
    outcome: String,
    from_address: Option<String>,
    request_id: Option<String>,
    #[schema(value_type = Value)]
    detail: serde_json::Value,
    #[schema(value_type = Value)]
    before: Option<serde_json::Value>,
    #[schema(value_type = Value)]
    after: Option<serde_json::Value>,
}
