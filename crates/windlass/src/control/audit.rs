//! The audit trail: what was done, by whom, and whether anybody touched the record since.

use crate::control::transaction::Looking;
use crate::error::Result;
use crate::model::audit::{AuditFault, AuditHead};
use crate::queue::Queue;
use crate::store;

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
        store::audit::seal(self.database()).await
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
