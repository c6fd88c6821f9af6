//! Retention as it is read: rules, their progress, and holds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A rule of a tenant, which takes precedence over those of the definitions.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for rule in reading.retention().await? {
///     println!("{} {}: {:?} s", rule.definition_key, rule.status, rule.keep_seconds);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetentionRule {
    /// `*` for every definition.
    pub definition_key: String,
    /// A terminal status, or `event`.
    pub status: String,
    /// None means forever.
    pub keep_seconds: Option<i64>,
}

/// The progress of one rule.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// for rule in queue.retention_progress().await? {
///     println!("{} {}: {} deleted", rule.definition_key, rule.status, rule.purged.unwrap_or_default());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RetentionProgress {
    /// The tenant of the rule; none for the rule of a definition, which applies to every tenant without its own.
    pub tenant_id: Option<Uuid>,
    /// The key of its definition.
    pub definition_key: String,
    /// The status of the jobs, or `event`.
    pub status: String,
    /// How long they are kept.
    pub keep_seconds: i64,
    /// Everything that ended before this instant has been checked.
    pub reached: Option<Timestamp>,
    /// How long ago the first due job that nothing holds back should have been deleted, in seconds.
    pub behind_seconds: Option<i64>,
    /// Jobs deleted so far. `None` for the rule of a definition if only one tenant is read.
    pub purged: Option<i64>,
    /// When the keeper checked last.
    pub checked_at: Option<Timestamp>,
    /// Jobs past their period that still exist.
    pub due: i64,
    /// There may be more due jobs than that: only the oldest ones were counted.
    pub is_due_partial: bool,
    /// Why some of the due jobs still exist, with their number.
    pub held_back: Vec<String>,
}

/// A legal hold: on one job, on the jobs of a subject, or on all data of the tenant.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for hold in reading.holds().await? {
///     println!("{}: {} (by {})", hold.id, hold.reason, hold.created_by);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LegalHold {
    /// The id of the hold.
    pub id: Uuid,
    /// The held job, if it is one job.
    pub job_id: Option<Uuid>,
    /// The type of the subject.
    pub subject_type: Option<String>,
    /// The id of the subject.
    pub subject_id: Option<String>,
    /// Why the jobs are held.
    pub reason: String,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// An expired job that waits until its artifact is deleted.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for wait in reading.purge_waits().await? {
///     println!("{} waits for {} since {}", wait.job_id, wait.cleanup_job_id, wait.since);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PurgeWait {
    /// The expired job.
    pub job_id: Uuid,
    /// The job that deletes the artifact.
    pub cleanup_job_id: Uuid,
    /// The status of the job that deletes the artifact; `dead_letter` and `failed` need attention.
    pub cleanup_status: Option<String>,
    /// When it started to wait.
    pub since: Timestamp,
}
