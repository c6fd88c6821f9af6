//! A tenant as operators see it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The tenant of applications that have only one.
pub const DEFAULT_TENANT: Uuid = Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0001);

/// Stands for the installation itself where a tenant is asked for: its own tokens, its own acts in the audit trail.
pub const INSTALLATION: Uuid = Uuid::nil();

/// A tenant as operators see it.
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
    /// The tenant's share of the workers, relative to the others.
    pub weight: i32,
    /// The time zone of its schedules by default.
    pub timezone: String,
    /// The most jobs that may be waiting or running.
    pub max_queued: Option<i64>,
    /// The most jobs that may be running.
    pub max_running: Option<i32>,
    /// The most requests per minute.
    pub requests_per_minute: Option<i32>,
    /// The most combinations of definition, queue and priority that its jobs may use.
    pub max_lanes: i32,
    /// The most queue names that its jobs may use.
    pub max_queue_names: i32,
    /// The most triggers that it may have.
    pub max_triggers: i32,
    /// How many of its jobs are gone, while it is being deleted.
    pub purged_jobs: i64,
    /// Why its deletion cannot go on, if so: something of it is under legal hold, or the error that it met.
    pub purge_blocked: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}
