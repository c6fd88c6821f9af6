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

    /// `None` says nothing.
    #[must_use]
    pub(crate) fn before(mut self, before: &impl Serialize) -> Self {
        self.before = said(before);
        self
    }

    /// `None` says nothing.
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
pub struct AuditFault {
    pub tenant_id: Uuid,
    /// Where in the tenant's chain.
    pub position: Option<i64>,
    pub audit_id: Option<i64>,
    pub problem: String,
}

/// The last link of one chain. Kept elsewhere it is a checkpoint: the chain must contain it for ever after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Nil for the installation's own chain.
    pub tenant_id: Uuid,
    pub position: i64,
    /// In hex.
    pub hash: String,
    pub sealed_at: Timestamp,
}

/// One row of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub id: i64,
    pub at: Timestamp,
    pub tenant_id: Uuid,
    pub actor: String,
    pub role: Option<String>,
    pub action: String,
    pub target: String,
    /// `done` or `denied`.
    pub outcome: String,
    pub from_address: Option<String>,
    pub request_id: Option<String>,
    pub detail: Value,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Which rows of the audit trail.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
    pub outcome: Option<String>,
    /// Only rows with a smaller id: the last one of the page before.
    pub before: Option<i64>,
    pub limit: u16,
}
