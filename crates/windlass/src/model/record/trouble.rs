//! What a keeper could not deal with.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

/// A row that a keeper set aside or passes over, so that the others go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Trouble {
    /// The keeper's duty that met it, or `definition` for a definition that cannot be used as it is stored.
    pub duty: String,
    /// None where it is the installation's.
    pub tenant_id: Option<Uuid>,
    /// A job's, a trigger's or a tenant's id, a definition's key, or the name of a partition.
    pub subject: String,
    /// What is wrong.
    pub reason: String,
    /// Since when.
    pub since: Option<Timestamp>,
}
