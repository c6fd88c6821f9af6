//! The audit trail: what was done, by whom, and whether anybody touched the record since.

mod checkpoint;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::act::Looking;
use crate::error::Result;
use crate::queue::Queue;
use crate::store;

/// One act as it is written down. Secrets have no place in it: say what changed, not with what.
#[derive(Debug, Clone)]
pub struct Act {
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) is_denied: bool,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

impl Act {
    /// `action` is `noun.verb`; `target` the id of what it was done to.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "ids and names are given as they are, whatever they are"
    )]
    pub fn new(action: &'static str, target: impl ToString) -> Self {
        Self { action, target: target.to_string(), is_denied: false, before: None, after: None }
    }

    /// It was asked for and not done.
    #[must_use]
    pub fn denied(mut self) -> Self {
        self.is_denied = true;
        self
    }

    #[must_use]
    pub fn before(mut self, before: &impl Serialize) -> Self {
        self.before = serde_json::to_value(before).ok();
        self
    }

    #[must_use]
    pub fn after(mut self, after: &impl Serialize) -> Self {
        self.after = serde_json::to_value(after).ok();
        self
    }
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
    pub sealed_at: jiff::Timestamp,
}

/// Rows of one round of chaining, so that no transaction is long.
pub(crate) const SEALED_AT_ONCE: u64 = 1000;

impl Queue {
    /// Walks every chain of the audit trail and answers what is wrong with it: nothing, if nobody touched it. Each head of
    /// the checkpoint must still be in its chain.
    pub async fn verify_audit(&self, checkpoint: &[AuditHead]) -> Result<Vec<AuditFault>> {
        verify(&self.database().session().await?, checkpoint).await
    }

    /// The last link of every chain.
    pub async fn audit_heads(&self) -> Result<Vec<AuditHead>> {
        store::audit::heads(&self.database().session().await?, None).await
    }

    /// Chains what has been committed since the last time; answers how many rows. A duty of the keeper.
    pub async fn seal_audit(&self) -> Result<u64> {
        let most = i32::try_from(SEALED_AT_ONCE).unwrap_or(i32::MAX);
        store::audit::seal(self.database(), most).await
    }
}

impl Looking {
    /// As [`Queue::verify_audit`].
    pub async fn verify_audit(&self, checkpoint: &[AuditHead]) -> Result<Vec<AuditFault>> {
        verify(&self.session, checkpoint).await
    }

    /// The last link of the tenant's chain, or of every chain.
    pub async fn audit_heads(&self) -> Result<Vec<AuditHead>> {
        store::audit::heads(&self.session, self.reach.tenant()).await
    }
}

async fn verify(session: &store::database::Session, checkpoint: &[AuditHead]) -> Result<Vec<AuditFault>> {
    let mut faults = store::audit::verify(session).await?;
    faults.extend(store::audit::verify_checkpoint(session, checkpoint).await?);
    Ok(faults)
}
