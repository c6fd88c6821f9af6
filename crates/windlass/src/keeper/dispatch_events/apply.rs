//! Writes the decisions about events. If the database permanently refuses a batch, its parts are written one by one
//! until only the refused part is left: one event for one trigger is then stored as failed, like a payload that cannot
//! be rendered, and can be retried; an event that cannot be written even so waits in the outbox with the reason. So
//! does an event whose job would have to wait for an open transaction of its tenant, but for a shorter time.

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store;
use crate::store::database::Database;
use crate::store::event::DecidedEvent;
use crate::text;

/// How long an event that cannot be dispatched waits until it is tried again.
const HELD_BACK_SECONDS: i32 = 60;
/// The same for an event that another transaction blocks.
const LOCKED_SECONDS: i32 = 2;
/// After this many lock timeouts, the rest of a tenant's events is not tried in this round: each would wait as long.
pub(super) const MAX_LOCKED: usize = 3;

/// Returns how many events were dispatched or advanced, and how many jobs that created.
pub(super) async fn apply(database: &Database, decided: Vec<DecidedEvent>) -> Result<(u64, u64)> {
    if decided.is_empty() {
        return Ok((0, 0));
    }
    match store::event::dispatch(database, &decided).await {
        Err(error) if is_refusal(&error) || error.is_lock_timeout() => {}
        result => return result,
    }
    let (mut dispatched, mut fired) = (0, 0);
    for of_tenant in decided.chunk_by(|one, next| one.tenant == next.tenant) {
        let (more_dispatched, more_fired) = apply_of_tenant(database, of_tenant).await?;
        dispatched += more_dispatched;
        fired += more_fired;
    }
    Ok((dispatched, fired))
}

/// Writes one tenant's events: all at once, or else one after another.
async fn apply_of_tenant(database: &Database, decided: &[DecidedEvent]) -> Result<(u64, u64)> {
    match store::event::dispatch(database, decided).await {
        Err(error) if is_refusal(&error) || error.is_lock_timeout() => {}
        result => return result,
    }
    let (mut dispatched, mut fired, mut locked) = (0, 0, 0);
    for one in decided {
        let result = if locked < MAX_LOCKED { Some(apply_one(database, one.clone()).await) } else { None };
        match result {
            Some(Ok((more_dispatched, more_fired))) => {
                dispatched += more_dispatched;
                fired += more_fired;
            }
            Some(Err(error)) if !error.is_lock_timeout() => return Err(error),
            Some(Err(_)) | None => {
                locked += 1;
                hold_back_locked(database, one.tenant, one.event).await?;
            }
        }
    }
    Ok((dispatched, fired))
}

/// Writes one event: for all of its triggers, or else for one after another.
async fn apply_one(database: &Database, decided: DecidedEvent) -> Result<(u64, u64)> {
    let problem = match store::event::dispatch(database, std::slice::from_ref(&decided)).await {
        Err(error) if is_refusal(&error) => error.to_string(),
        result => return result,
    };
    let DecidedEvent { tenant, event, mut after, until, matches } = decided;
    let (mut dispatched, mut fired) = (0, 0);
    let mut rest = matches.into_iter().peekable();
    if rest.peek().is_none() {
        hold_back(database, tenant, event, &problem).await?;
        return Ok((1, 0));
    }
    while let Some(one) = rest.next() {
        let until = if rest.peek().is_some() { Some(one.trigger) } else { until };
        let alone = DecidedEvent { tenant, event, after, until, matches: vec![one] };
        after = until;
        match store::event::dispatch(database, std::slice::from_ref(&alone)).await {
            // Stale, or done by another dispatcher: the following ones would be out of order.
            Ok((0, _)) => return Ok((dispatched, fired)),
            Ok((_, more)) => fired += more,
            Err(error) if is_refusal(&error) => {
                if !apply_failed(database, alone, &error).await? {
                    return Ok((1, fired));
                }
            }
            Err(error) => return Err(error),
        }
        dispatched = 1;
    }
    Ok((dispatched, fired))
}

/// Stores one event for one trigger as failed; if that is refused too, the event is delayed.
async fn apply_failed(database: &Database, mut decided: DecidedEvent, error: &Error) -> Result<bool> {
    let problem = text::storable(error.to_string().as_bytes(), 500);
    for one in &mut decided.matches {
        one.made = Err(problem.clone());
    }
    match store::event::dispatch(database, std::slice::from_ref(&decided)).await {
        Err(error) if is_refusal(&error) => {
            hold_back(database, decided.tenant, decided.event, &error.to_string()).await?;
            Ok(false)
        }
        result => result.map(|_| true),
    }
}

/// Delays an event, so that it does not block others.
pub(super) async fn hold_back(database: &Database, tenant: Uuid, event: Uuid, problem: &str) -> Result<()> {
    tracing::error!(tenant_id = %tenant, event_id = %event, problem, "cannot dispatch an event; it is retried");
    let problem = text::storable(problem.as_bytes(), 500);
    store::event::hold_back(database, tenant, event, &problem, HELD_BACK_SECONDS).await
}

/// The same for an event that another transaction blocks, for a shorter time.
pub(super) async fn hold_back_locked(database: &Database, tenant: Uuid, event: Uuid) -> Result<()> {
    let problem = "another transaction of the tenant holds a lock that its job needs";
    store::event::hold_back(database, tenant, event, problem, LOCKED_SECONDS).await
}

/// Whether the statement itself is refused, regardless of the time, so that another try would end in the same way. A
/// timeout counts too, because a part of the statement takes less time.
fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Database(refused) if refused.code().is_none() => {
            !refused.is_closed() && !has_io_cause(refused)
        }
        error => !error.is_transient() || error.is_timeout(),
    }
}

/// Whether the connection broke; a message that cannot be sent at all has another cause.
fn has_io_cause(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() != std::io::ErrorKind::InvalidInput)
    })
}
