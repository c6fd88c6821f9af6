//! The audit trail: recorded actions, and whether the record was changed afterwards.

use crate::control::transaction::Reading;
use crate::error::Result;
use crate::model::audit::{AuditFault, AuditHead};
use crate::queue::Queue;
use crate::store;

/// ```no_run
/// # async fn example(queue: &windlass::Queue, stored: &str) -> windlass::Result<()> {
/// use windlass::admin::AuditHead;
///
/// // Seal what was recorded so far, and store the heads outside the database.
/// queue.seal_audit().await?;
/// for head in queue.audit_heads().await? {
///     println!("{}", head.to_line());
/// }
///
/// // Later: the trail must still contain them.
/// let checkpoint = AuditHead::parse_lines(stored)?;
/// for fault in queue.verify_audit(&checkpoint).await? {
///     println!("{} at {:?}", fault.problem, fault.position);
/// }
/// # Ok(())
/// # }
/// ```
impl Queue {
    /// Verifies every chain of the audit trail and returns the faults, none if it is intact. Each head of the
    /// checkpoint must still be in its chain.
    pub async fn verify_audit(&self, checkpoint: &[AuditHead]) -> Result<Vec<AuditFault>> {
        let session = self.whole_trail().await?;
        let faults = verify(&session, checkpoint).await?;
        session.commit().await?;
        Ok(faults)
    }

    /// The last entry of every chain.
    pub async fn audit_heads(&self) -> Result<Vec<AuditHead>> {
        let session = self.whole_trail().await?;
        let heads = store::audit::heads(&session, None).await?;
        session.commit().await?;
        Ok(heads)
    }

    /// A transaction without a current tenant. The login or the URL may set one by default, and only its chain would be verified.
    async fn whole_trail(&self) -> Result<store::database::Session> {
        let mut session = self.database().session().await?;
        session.begin_with("begin; set local windlass.tenant_id = ''").await?;
        Ok(session)
    }

    /// Adds the entries that were committed since the last call to their chains; returns how many. A duty of the
    /// keeper.
    pub async fn seal_audit(&self) -> Result<u64> {
        let (sealed, _) = store::audit::seal(self.database()).await?;
        Ok(sealed.unsigned_abs().into())
    }
}

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// let heads = reading.audit_heads().await?;
/// assert!(reading.verify_audit(&heads).await?.is_empty());
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// As [`Queue::verify_audit`].
    pub async fn verify_audit(&self, checkpoint: &[AuditHead]) -> Result<Vec<AuditFault>> {
        verify(&self.session, checkpoint).await
    }

    /// The last entry of the tenant's chain, or of every chain.
    pub async fn audit_heads(&self) -> Result<Vec<AuditHead>> {
        store::audit::heads(&self.session, self.reach.tenant()).await
    }
}

async fn verify(session: &store::database::Session, checkpoint: &[AuditHead]) -> Result<Vec<AuditFault>> {
    let mut faults = store::audit::verify(session).await?;
    faults.extend(store::audit::verify_checkpoint(session, checkpoint).await?);
    Ok(faults)
}
