//! Events in the database: emitting, listing, and what the dispatcher does with them.

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement, query_unnamed};
use super::param::{JsonText, read_json};
use super::trigger::whole_millis;
use crate::emit::{Emitted, NewEvent};
use crate::error::Result;
use crate::record::{Event, EventTrigger};
use crate::trigger::Trigger;

pub(crate) const STATEMENTS: &[&Statement] = &[&EMIT, &LIST, &PENDING, &TRIGGERS, &DISPATCH, &RETRY];

static EMIT: Statement = Statement {
    text: "select id, is_duplicate from windlass.emit($1, $2, $3, $4, $5, $6, $7)",
    types: &[Type::TEXT, Type::JSONB, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::UUID],
};

pub(crate) async fn emit(session: &Session, event: &NewEvent, payload: &str) -> Result<Emitted> {
    Ok(read_emitted(&session.query(&EMIT, &params(event, &JsonText(payload))).await?[0]))
}

/// On the caller's own connection or transaction.
pub(crate) async fn emit_on<C: tokio_postgres::GenericClient + Sync>(
    client: &C,
    event: &NewEvent,
    payload: &str,
) -> Result<Emitted> {
    let payload = JsonText(payload);
    Ok(read_emitted(&query_unnamed(client, &EMIT, &params(event, &payload)).await?[0]))
}

fn params<'a>(event: &'a NewEvent, payload: &'a JsonText<'a>) -> [&'a (dyn ToSql + Sync); 7] {
    [
        &event.name,
        payload,
        &event.tenant,
        &event.dedupe_id,
        &event.correlation_id,
        &event.trace,
        &event.created_by,
    ]
}

fn read_emitted(row: &Row) -> Emitted {
    Emitted { id: row.get(0), is_duplicate: row.get(1) }
}

static LIST: Statement = Statement {
    text: include_str!("sql/event/list.sql"),
    types: &[Type::UUID, Type::UUID, Type::TEXT, Type::UUID, Type::BOOL, Type::INT8, Type::INT8],
};

/// Which events of a tenant.
#[derive(Default)]
pub(crate) struct Which<'a> {
    pub(crate) id: Option<Uuid>,
    pub(crate) name: Option<&'a str>,
    pub(crate) older_than: Option<Uuid>,
    pub(crate) only_failed: bool,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

pub(crate) async fn list(session: &Session, tenant: Uuid, which: &Which<'_>) -> Result<Vec<Event>> {
    let params: [&(dyn ToSql + Sync); 7] =
        [&tenant, &which.id, &which.name, &which.older_than, &which.only_failed, &which.limit, &which.offset];
    let rows = session.query(&LIST, &params).await?;
    rows.iter().map(|row| read_json(row, 0)).collect()
}

/// An event that waits to be dispatched.
pub(crate) struct Pending {
    pub(crate) tenant: Uuid,
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) payload: Value,
    pub(crate) emitted_at: Timestamp,
}

static PENDING: Statement = Statement {
    text: "select tenant_id, id, name, payload, emitted_at from windlass.pending_events($1, $2, $3)",
    types: &[Type::INT4, Type::INT4, Type::INT4],
};

pub(crate) async fn pending(
    db: &Database,
    late: std::time::Duration,
    most: i32,
    rings_for: std::time::Duration,
) -> Result<Vec<Pending>> {
    let rows = db.query(&PENDING, &[&whole_millis(late), &most, &whole_millis(rings_for)]).await?;
    let read = |row: &Row| Pending {
        tenant: row.get(0),
        id: row.get(1),
        name: row.get(2),
        payload: row.get(3),
        emitted_at: row.get(4),
    };
    Ok(rows.iter().map(read).collect())
}

static TRIGGERS: Statement =
    Statement { text: "select windlass.event_triggers($1)", types: &[Type::UUID_ARRAY] };

pub(crate) async fn triggers(db: &Database, tenants: &[Uuid]) -> Result<Vec<Trigger>> {
    let rows = db.query(&TRIGGERS, &[&tenants]).await?;
    rows.iter().map(|row| read_json(row, 0)).collect()
}

static DISPATCH: Statement = Statement {
    text: "select dispatched, fired from windlass.dispatch_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    types: &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::JSONB_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// One event at one trigger that it matches: a job to be, or why there can be none.
pub(crate) struct Match {
    /// Which of the events, from 1.
    pub(crate) ord: i32,
    pub(crate) trigger: Uuid,
    pub(crate) generation: i32,
    pub(crate) key: String,
    pub(crate) window: i32,
    pub(crate) made: Result<Made, String>,
}

/// A rendered payload, and what makes it the same as another within the trigger's window.
pub(crate) struct Made {
    pub(crate) job: Uuid,
    pub(crate) payload: String,
    pub(crate) dedupe_key: String,
}

/// How many events were dispatched by us, and how many jobs that made.
pub(crate) async fn dispatch(db: &Database, events: &[Pending], matches: &[Match]) -> Result<(u64, u64)> {
    let tenants: Vec<_> = events.iter().map(|event| event.tenant).collect();
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    let ords: Vec<_> = matches.iter().map(|one| one.ord).collect();
    let triggers: Vec<_> = matches.iter().map(|one| one.trigger).collect();
    let generations: Vec<_> = matches.iter().map(|one| one.generation).collect();
    let reasons: Vec<_> = matches.iter().map(|one| one.made.as_ref().err()).collect();
    let jobs: Vec<_> = matches.iter().map(|one| one.made.as_ref().ok().map(|made| made.job)).collect();
    let keys: Vec<_> = matches.iter().map(|one| &one.key).collect();
    let payloads: Vec<_> =
        matches.iter().map(|one| one.made.as_ref().ok().map(|made| JsonText(&made.payload))).collect();
    let dedupe_keys: Vec<_> =
        matches.iter().map(|one| one.made.as_ref().ok().map(|made| &made.dedupe_key)).collect();
    let windows: Vec<_> = matches.iter().map(|one| one.window).collect();
    let params: [&(dyn ToSql + Sync); 11] = [
        &tenants,
        &ids,
        &ords,
        &triggers,
        &generations,
        &reasons,
        &jobs,
        &keys,
        &payloads,
        &dedupe_keys,
        &windows,
    ];
    let row = db.query_one(&DISPATCH, &params).await?;
    let count = |column: usize| u64::from(row.get::<_, i32>(column).unsigned_abs());
    Ok((count(0), count(1)))
}

static RETRY: Statement = Statement {
    text: "select outcome, job_id, why from windlass.retry_dispatch($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    types: &[
        Type::UUID,
        Type::UUID,
        Type::UUID,
        Type::TEXT,
        Type::UUID,
        Type::TEXT,
        Type::JSONB,
        Type::TEXT,
        Type::INT4,
    ],
};

/// What became of it, or nothing if it had not failed.
pub(crate) async fn retry(
    session: &Session,
    tenant: Uuid,
    event: Uuid,
    one: &Match,
) -> Result<Option<EventTrigger>> {
    let made = one.made.as_ref().ok();
    let params: [&(dyn ToSql + Sync); 9] = [
        &tenant,
        &event,
        &one.trigger,
        &one.made.as_ref().err(),
        &made.map(|made| made.job),
        &one.key,
        &made.map(|made| JsonText(&made.payload)),
        &made.map(|made| &made.dedupe_key),
        &one.window,
    ];
    let row = &session.query(&RETRY, &params).await?[0];
    let outcome: Option<String> = row.get(0);
    Ok(outcome.map(|outcome| EventTrigger {
        trigger_id: one.trigger,
        outcome,
        job_id: row.get(1),
        reason: row.get(2),
    }))
}
