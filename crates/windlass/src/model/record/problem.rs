//! Rows that the keeper could not process.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

/// A row that the keeper set aside or skips, so that it does not block others.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for problem in reading.problems().await? {
///     println!("{} set {} aside: {}", problem.duty, problem.subject, problem.reason);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The duty that failed, or `definition` for a stored definition that cannot be used.
    pub duty: String,
    /// None for the installation.
    pub tenant_id: Option<Uuid>,
    /// The id of a job, a trigger or a tenant, the key of a definition, or the name of a partition.
    pub subject: String,
    /// What is wrong.
    pub reason: String,
    /// When it was set aside.
    pub since: Option<Timestamp>,
}
