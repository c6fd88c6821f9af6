//! The audit trail as values: an action as it is written, an entry as it is read, the heads of the chains, and their
//! faults.

mod action;
mod checkpoint;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use action::Action;

/// An action that no function of the database records, as it is written: the jobs and events of a caller, and what was
/// denied. It must not contain secrets: record what changed, not the values.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) action: Action,
    pub(crate) target: String,
    pub(crate) is_denied: bool,
    pub(crate) after: Option<Value>,
}

impl Act {
    /// `target` is the id or the name of the affected object.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass ids and names of various types")]
    pub(crate) fn new(action: Action, target: impl ToString) -> Self {
        Self { action, target: target.to_string(), is_denied: false, after: None }
    }

    /// The action was requested and denied.
    #[must_use]
    pub(crate) fn denied(mut self) -> Self {
        self.is_denied = true;
        self
    }

    /// Adds the state after the action; `None` adds nothing.
    #[must_use]
    pub(crate) fn after(mut self, after: &impl Serialize) -> Self {
        self.after = serde_json::to_value(after).ok().filter(|value| !value.is_null());
        self
    }
}

/// A fault at one position of the audit trail.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// for fault in queue.verify_audit(&[]).await? {
///     println!("tenant {}, position {:?}: {}", fault.tenant_id, fault.position, fault.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditFault {
    /// The tenant of the chain.
    pub tenant_id: Uuid,
    /// The position in the chain of the tenant.
    pub position: Option<i64>,
    /// The id of the row.
    pub audit_id: Option<i64>,
    /// What is wrong.
    pub problem: String,
}

/// The last entry of one chain. Stored outside the database it is a checkpoint: the chain must always contain it.
///
/// ```
/// use windlass::DEFAULT_TENANT;
/// use windlass::admin::AuditHead;
///
/// let head = AuditHead::new(DEFAULT_TENANT, 12, "ab".repeat(32), jiff::Timestamp::UNIX_EPOCH);
/// let stored = format!("# after the release\n{}\n", head.to_line());
/// assert_eq!(AuditHead::parse_lines(&stored)?, [head]);
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditHead {
    /// Nil for the chain of the installation.
    pub tenant_id: Uuid,
    /// The position of the entry in its chain.
    pub position: i64,
    /// The hash in hex.
    pub hash: String,
    /// When the entry was sealed.
    pub sealed_at: Timestamp,
}

impl AuditHead {
    /// A checkpoint that was stored outside the database.
    #[must_use]
    pub const fn new(tenant_id: Uuid, position: i64, hash: String, sealed_at: Timestamp) -> Self {
        Self { tenant_id, position, hash, sealed_at }
    }
}

/// One entry of the audit trail.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// use windlass::admin::AuditQuery;
///
/// let (entries, _) = reading.audit(&AuditQuery::newest(20)).await?;
/// for entry in entries {
///     println!("{} {} {} {}: {}", entry.at, entry.actor, entry.action, entry.target, entry.outcome);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The id of the row.
    pub id: i64,
    /// When it happened.
    pub at: Timestamp,
    /// The tenant of the entry.
    pub tenant_id: Uuid,
    /// Who acted.
    pub actor: String,
    /// The name of the role.
    pub role: Option<String>,
    /// The action, as `noun.verb`.
    pub action: String,
    /// The id or name of the affected object.
    pub target: String,
    /// `done` or `denied`.
    pub outcome: String,
    /// The network address of the caller.
    pub from_address: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
    /// More details.
    pub detail: Value,
    /// The state before.
    pub before: Option<Value>,
    /// The state after.
    pub after: Option<Value>,
}

/// Selects entries of the audit trail.
///
/// ```
/// use windlass::admin::{Action, AuditQuery};
///
/// let denied = AuditQuery::newest(50)
///     .actor(Some("user:7".to_owned()))
///     .action(Some(Action::JobCancel.to_string()))
///     .outcome(Some("denied".to_owned()));
/// let next_page = denied.clone().before(Some(4711)).target(None);
/// assert_eq!((next_page.limit, next_page.before), (50, Some(4711)));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Only rows of this actor.
    pub actor: Option<String>,
    /// Only rows of this action.
    pub action: Option<String>,
    /// Only rows with this target.
    pub target: Option<String>,
    /// Only rows with this outcome.
    pub outcome: Option<String>,
    /// Only rows with a smaller id: the last one of the previous page.
    pub before: Option<i64>,
    /// The maximum number of rows.
    pub limit: u16,
}

impl AuditQuery {
    /// The newest rows, at most this many.
    #[must_use]
    pub fn newest(limit: u16) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Only rows with this actor, if one is given.
    #[must_use]
    pub fn actor(mut self, actor: Option<String>) -> Self {
        self.actor = actor;
        self
    }

    /// Only rows with this action, if one is given.
    #[must_use]
    pub fn action(mut self, action: Option<String>) -> Self {
        self.action = action;
        self
    }

    /// Only rows with this target, if one is given.
    #[must_use]
    pub fn target(mut self, target: Option<String>) -> Self {
        self.target = target;
        self
    }

    /// Only rows with this outcome, if one is given.
    #[must_use]
    pub fn outcome(mut self, outcome: Option<String>) -> Self {
        self.outcome = outcome;
        self
    }

    /// Only rows with a smaller id: the last one of the previous page.
    #[must_use]
    pub fn before(mut self, id: Option<i64>) -> Self {
        self.before = id;
        self
    }
}
