//! What is read of retention: rules, how far they have come, and holds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A tenant's own rule, before its definitions'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetentionRule {
    /// `*` for every definition.
    pub definition_key: String,
    /// A terminal status, or `event`.
    pub status: String,
    /// None is forever.
    pub keep_seconds: Option<i64>,
}

/// How far one rule has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RetentionProgress {
    /// Of whom the rule is; none for a definition's own, which holds for every tenant without one.
    pub tenant_id: Option<Uuid>,
    /// The key of its definition.
    pub definition_key: String,
    /// The status of the jobs, or `event`.
    pub status: String,
    /// How long they are kept.
    pub keep_seconds: i64,
    /// Everything that ended before this instant has been looked at.
    pub reached: Option<Timestamp>,
    /// How much of the time that is past retention is still to be looked at.
    pub behind_seconds: Option<i64>,
    /// Jobs deleted so far.
    pub purged: i64,
    /// When the keeper last looked.
    pub looked_at: Option<Timestamp>,
}

/// What must not be deleted: one job, the jobs of a subject, or everything of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LegalHold {
    /// The id of the hold.
    pub id: Uuid,
    /// The held job, if it is one job.
    pub job_id: Option<Uuid>,
    /// The type of the entity that the job is about.
    pub subject_type: Option<String>,
    /// The id of the entity that the job is about.
    pub subject_id: Option<String>,
    /// Why the jobs are held.
    pub reason: String,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A job past its retention that waits until its artifact is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PurgeWait {
    /// The job that is to be purged.
    pub job_id: Uuid,
    /// The job that cleans up after it.
    pub cleanup_job_id: Uuid,
    /// Of the job that removes it; `dead_letter` or `failed` needs somebody to look.
    pub cleanup_status: Option<String>,
    /// Since when it waits.
    pub since: Timestamp,
}
