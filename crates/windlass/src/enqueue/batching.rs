//! Batches the enqueues of callers that wait for a connection at the same time: one transaction for all that wait when
//! a connection becomes free. If connections are free, each is sent alone and at once, so that no caller waits for
//! others; if not, the cost per caller falls with the number of callers.
//!
//! Every caller has its own audit entry and result. If the database rejects a batch, each job of it is retried alone,
//! so that an invalid job does not affect other callers. A batch has only callers of one tenant, because its
//! transaction belongs to that tenant.

use jiff::Timestamp;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::queue::waiting::Waiting;
use crate::store::database::{Database, Session};
use crate::store::enqueue_as::{ByCaller, routed_as};

/// Enqueues the job of one caller, alone or with others. Returns the time of the enqueue.
///
/// A separate task sends the statement: a caller that is canceled must not cancel the others.
pub(crate) async fn enqueue(queue: &Queue, tenant: Uuid, caller: ByCaller) -> Result<Timestamp> {
    let (answer, answered) = oneshot::channel();
    queue.waiting().add(tenant, Waiting { caller, answer });
    tokio::spawn(carry(queue.clone(), tenant));
    answered.await.unwrap_or_else(|_| Err(Error::unanswered()))
}

/// One task runs for each waiting caller of a tenant, so every caller is in the batch of some task. The tasks use only
/// the tenant's share of the connections: if a transaction of the tenant blocks them, other tenants are not affected.
async fn carry(queue: Queue, tenant: Uuid) {
    match queue.database().session_of(Some(tenant)).await {
        Ok(mut session) => send(queue.database(), &mut session, tenant, queue.waiting().take(tenant)).await,
        Err(error) => {
            if let Some(first) = queue.waiting().take_one(tenant) {
                respond(first, Err(error));
            }
        }
    }
}

async fn send(db: &Database, session: &mut Session, tenant: Uuid, group: Vec<Waiting>) {
    if group.is_empty() {
        return;
    }
    let callers: Vec<&ByCaller> = group.iter().map(|one| &one.caller).collect();
    let result = routed_as(db, session, tenant, &callers).await;
    // It was rolled back, so nothing was written. If there was no response, it is not retried, because it may have been
    // committed; and neither is a statement that timed out.
    let is_refused = result
        .as_ref()
        .is_err_and(|error| error.is_conflict() || !error.is_transient() && !error.is_timeout());
    let retry_alone = is_refused && group.len() > 1;
    for one in group {
        let result =
            if retry_alone { routed_as(db, session, tenant, &[&one.caller]).await } else { result.clone() };
        respond(one, result);
    }
}

/// The caller may have been canceled meanwhile.
fn respond(one: Waiting, result: Result<Timestamp>) {
    let _ = one.answer.send(result);
}
