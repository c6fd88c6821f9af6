//! A tenant as operators see it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The tenant of applications that have only one.
pub const DEFAULT_TENANT: Uuid = Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0001);

/// Represents the installation itself in place of a tenant: for its tokens, and for its entries in the audit trail.
pub const INSTALLATION: Uuid = Uuid::nil();

/// A tenant as operators see it.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for tenant in reading.tenants().await? {
///     println!("{} ({}): weight {}, {}", tenant.name, tenant.slug, tenant.weight, tenant.status);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tenant {
    /// The id of the tenant.
    pub id: Uuid,
    /// The short name, unique in the installation.
    pub slug: String,
    /// The name shown to people.
    pub name: String,
    /// `active`, `suspended` or `deleting`.
    pub status: String,
    /// The share of the workers, relative to other tenants.
    pub weight: i32,
    /// The default time zone of its schedules.
    pub timezone: String,
    /// The maximum number of unfinished jobs.
    pub max_queued: Option<i64>,
    /// The maximum number of running jobs.
    pub max_running: Option<i32>,
    /// The maximum number of requests per minute.
    pub requests_per_minute: Option<i32>,
    /// The maximum number of lanes: combinations of definition, queue and priority.
    pub max_lanes: i32,
    /// The maximum number of queue names.
    pub max_queue_names: i32,
    /// The maximum number of triggers.
    pub max_triggers: i32,
    /// The number of deleted jobs, while the tenant is being deleted.
    pub purged_jobs: i64,
    /// What blocks the deletion, if anything: a legal hold, or an error.
    pub purge_blocked: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}
