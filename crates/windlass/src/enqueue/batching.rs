//! Enqueues of callers from outside that wait for a connection at the same time are written together: one transaction for as many as
//! wait when a connection becomes free. With connections to spare each goes alone and at once, so nobody waits for company;
//! without, the more callers there are, the less each of them costs.
//!
//! Every caller has an audit row and an answer of their own. If the database refuses a group, each of it is tried alone, so that one
//! caller's mistake is nobody else's. Only callers of one tenant go together: the transaction is that tenant's.

use jiff::Timestamp;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::queue::waiting::Waiting;
use crate::store::database::{Database, Session};
use crate::store::enqueue_as::{ByCaller, routed_as};

/// Enqueues one caller's job, alone or with others. Answers since when it is there.
///
/// The statement is sent by a task of its own: a caller who hangs up must not take the others with them.
pub(crate) async fn enqueue(queue: &Queue, tenant: Uuid, caller: ByCaller) -> Result<Timestamp> {
    let (answer, answered) = oneshot::channel();
    queue.waiting().add(tenant, Waiting { caller, answer });
    tokio::spawn(carry(queue.clone(), tenant));
    answered.await.unwrap_or_else(|_| Err(Error::unanswered()))
}

/// As many of these run for a tenant as its callers wait, so whoever is not taken by one is taken by another. They take that tenant's
/// share of the connections: where a transaction of the tenant's own holds them up, they hold up nobody else.
async fn carry(queue: Queue, tenant: Uuid) {
    match queue.database().session_of(Some(tenant)).await {
        Ok(mut session) => send(queue.database(), &mut session, tenant, queue.waiting().take(tenant)).await,
        Err(error) => {
            if let Some(first) = queue.waiting().take_one(tenant) {
                tell(first, Err(error));
            }
        }
    }
}

async fn send(db: &Database, session: &mut Session, tenant: Uuid, group: Vec<Waiting>) {
    if group.is_empty() {
        return;
    }
    let callers: Vec<&ByCaller> = group.iter().map(|one| &one.caller).collect();
    let answer = routed_as(db, session, tenant, &callers).await;
    // Refused whole, so nothing of it is there. What was not answered is not tried again, because it may be, and what took too long
    // has had its time.
    let is_refused = answer
        .as_ref()
        .is_err_and(|error| error.is_conflict() || !error.is_transient() && !error.is_timeout());
    let go_alone = is_refused && group.len() > 1;
    for one in group {
        let answer =
            if go_alone { routed_as(db, session, tenant, &[&one.caller]).await } else { answer.clone() };
        tell(one, answer);
    }
}

/// Nobody hears it who has hung up meanwhile.
fn tell(one: Waiting, answer: Result<Timestamp>) {
    let _ = one.answer.send(answer);
}
