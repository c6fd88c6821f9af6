//! The audit trail as values: one act as it is written, one row as it is read, the heads of the chains and what is wrong with them.

mod action;
mod checkpoint;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use action::Action;

/// One act as it is written down. Secrets have no place in it: say what changed, not with what.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) action: Action,
    pub(crate) target: String,
    pub(crate) is_denied: bool,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

impl Act {
    /// `target` is the id or the name of what it was done to.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "ids and names are given as they are, whatever they are"
    )]
    pub(crate) fn new(action: Action, target: impl ToString) -> Self {
        Self { action, target: target.to_string(), is_denied: false, before: None, after: None }
    }

    /// It was asked for and not done.
    #[must_use]
    pub(crate) fn denied(mut self) -> Self {
        self.is_denied = true;
        self
    }

    /// Adds the state before the act; `None` adds nothing.
    #[must_use]
    pub(crate) fn before(mut self, before: &impl Serialize) -> Self {
        self.before = said(before);
        self
    }

    /// Adds the state after the act; `None` adds nothing.
    #[must_use]
    pub(crate) fn after(mut self, after: &impl Serialize) -> Self {
        self.after = said(after);
        self
    }
}

fn said(value: &impl Serialize) -> Option<Value> {
    serde_json::to_value(value).ok().filter(|value| !value.is_null())
}

/// What is wrong with the audit trail at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditFault {
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// Where in the tenant's chain.
    pub position: Option<i64>,
    /// The id of the row.
    pub audit_id: Option<i64>,
    /// What is wrong.
    pub problem: String,
}

/// The last link of one chain. Kept elsewhere it is a checkpoint: the chain must contain it forever after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditHead {
    /// Nil for the installation's own chain.
    pub tenant_id: Uuid,
    /// The position of the link in its chain.
    pub position: i64,
    /// In hex.
    pub hash: String,
    /// When the link was written.
    pub sealed_at: Timestamp,
}

impl AuditHead {
    /// A checkpoint that was kept elsewhere.
    #[must_use]
    pub const fn new(tenant_id: Uuid, position: i64, hash: String, sealed_at: Timestamp) -> Self {
        Self { tenant_id, position, hash, sealed_at }
    }
}

/// One row of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The id of the row.
    pub id: i64,
    /// When it happened.
    pub at: Timestamp,
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// Who acted.
    pub actor: String,
    /// The name of the role.
    pub role: Option<String>,
    /// What was done, as `noun.verb`.
    pub action: String,
    /// The id of what it was done to.
    pub target: String,
    /// `done` or `denied`.
    pub outcome: String,
    /// The network address of the caller.
    pub from_address: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
    /// Further facts.
    pub detail: Value,
    /// The state before.
    pub before: Option<Value>,
    /// The state after.
    pub after: Option<Value>,
}

/// Which rows of the audit trail.
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
    /// Only rows with a smaller id: the last one of the page before.
    pub before: Option<i64>,
    /// The most rows to return.
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
