//! Events in the database: emitting, listing and dispatching.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::bounded::Slices;
use super::database::{Database, Session, Statement, query_unnamed};
use super::param::{JsonText, read_json};
use super::trigger::{Unreadable, read_trigger, whole_millis};
use crate::error::Result;
use crate::model::event::{Emitted, NewEvent, Pending};
use crate::model::record::{Event, EventTrigger};
use crate::model::trigger::{Match, Trigger};

pub(crate) const STATEMENTS: &[&Statement] =
    &[&EMIT, &LIST, &PENDING, &HOLD_BACK, &TRIGGERS, &DISPATCH, &RETRY];

static EMIT: Statement = Statement {
    text: "select id, is_duplicate from windlass.emit($1, $2, $3, $4, $5, $6, $7)",
    types: &[Type::TEXT, Type::JSONB, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::UUID],
};

pub(crate) async fn emit(session: &Session, event: &NewEvent, payload: &str) -> Result<Emitted> {
    Ok(read_emitted(&session.query(&EMIT, &params(event, &JsonText(payload))).await?[0]))
}

/// In a separate transaction.
pub(crate) async fn emit_of(db: &Database, event: &NewEvent, payload: &str) -> Result<Emitted> {
    let rows = db.query_for(event.tenant, &EMIT, &params(event, &JsonText(payload))).await?;
    Ok(read_emitted(&EMIT.row_of(rows)?))
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

/// Selects events of a tenant.
#[derive(Default)]
pub(crate) struct WhichEvents<'a> {
    pub(crate) id: Option<Uuid>,
    pub(crate) name: Option<&'a str>,
    pub(crate) older_than: Option<Uuid>,
    pub(crate) only_failed: bool,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

/// Returns as many events as fit on a page, and whether there are more.
pub(crate) async fn list(
    session: &Session,
    tenant: Uuid,
    which: &WhichEvents<'_>,
) -> Result<(Vec<Event>, bool)> {
    let mut slices = Slices::new(which.limit);
    while let Some((limit, bytes)) = slices.wanted() {
        let last: Option<Uuid> = slices.last().map(|row| row.get(1));
        let offset = if last.is_some() { 0 } else { which.offset };
        let older_than = last.or(which.older_than);
        let params: [&(dyn ToSql + Sync); 7] =
            [&tenant, &which.id, &which.name, &older_than, &which.only_failed, &limit, &offset];
        slices.take(session.query_up_to(bytes, &LIST, &params).await?);
    }
    let (rows, has_more) = slices.page();
    let events: Result<_> = rows.iter().map(|row| read_json(row, 0)).collect();
    Ok((events?, has_more))
}

/// Limits of one read of the outbox.
pub(crate) struct OutboxShare {
    pub(crate) events: i32,
    pub(crate) bytes: i64,
    pub(crate) tenants: i32,
    /// The tenant of the previous turn.
    pub(crate) after: Uuid,
}

/// The result of one read.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) events: Vec<Pending>,
    /// Tenant and id of events that this release cannot read, with the error.
    pub(crate) unreadable: Vec<(Uuid, Uuid, String)>,
    pub(crate) has_more: bool,
}

static PENDING: Statement = Statement {
    text: "select tenant_id, id, name, payload, emitted_at, after_trigger, has_more from windlass.pending_events($1, $2, $3, $4, $5, $6)",
    types: &[Type::INT4, Type::INT4, Type::INT4, Type::INT8, Type::INT4, Type::UUID],
};

pub(crate) async fn pending(
    db: &Database,
    late: std::time::Duration,
    share: &OutboxShare,
    notifies_for: std::time::Duration,
) -> Result<Outbox> {
    let (late, notifies_for) = (whole_millis(late), whole_millis(notifies_for));
    let params: [&(dyn ToSql + Sync); 6] =
        [&late, &share.events, &notifies_for, &share.bytes, &share.tenants, &share.after];
    let mut outbox = Outbox::default();
    for row in &db.query(&PENDING, &params).await? {
        outbox.has_more = row.get(6);
        match read_json(row, 3) {
            Ok(payload) => outbox.events.push(Pending {
                tenant: row.get(0),
                id: row.get(1),
                name: row.get(2),
                payload,
                emitted_at: row.get(4),
                after: row.get(5),
            }),
            Err(error) => outbox.unreadable.push((row.get(0), row.get(1), error.to_string())),
        }
    }
    Ok(outbox)
}

static HOLD_BACK: Statement = Statement {
    text: "select windlass.hold_event_back($1, $2, $3, $4)",
    types: &[Type::UUID, Type::UUID, Type::TEXT, Type::INT4],
};

/// Delays an event, with the reason.
pub(crate) async fn hold_back(
    db: &Database,
    tenant: Uuid,
    event: Uuid,
    problem: &str,
    seconds: i32,
) -> Result<()> {
    db.query(&HOLD_BACK, &[&tenant, &event, &problem, &seconds]).await.map(drop)
}

/// Some of a tenant's event triggers, by id.
#[derive(Default)]
pub(crate) struct Triggers {
    pub(crate) found: Vec<Result<Trigger, Unreadable>>,
    /// The last trigger that was read.
    pub(crate) until: Option<Uuid>,
    /// There are none after these.
    pub(crate) is_last: bool,
}

static TRIGGERS: Statement = Statement {
    text: "select fields, tenant_id, trigger_id from windlass.event_triggers($1, $2, $3, $4)",
    types: &[Type::UUID_ARRAY, Type::UUID_ARRAY, Type::INT4, Type::INT4],
};

/// Returns the next triggers of each tenant after the given one, with a maximum number and size per tenant.
pub(crate) async fn triggers(
    db: &Database,
    tenants: &[Uuid],
    afters: &[Uuid],
    most: i32,
    most_bytes: i32,
) -> Result<HashMap<Uuid, Triggers>> {
    let mut all: HashMap<Uuid, Triggers> = HashMap::new();
    for row in &db.query(&TRIGGERS, &[&tenants, &afters, &most, &most_bytes]).await? {
        let of_tenant = all.entry(row.get(1)).or_default();
        let Some(trigger) = row.get::<_, Option<Uuid>>(2) else {
            of_tenant.is_last = true;
            continue;
        };
        of_tenant.until = Some(trigger);
        of_tenant.found.push(read_trigger(row)?);
    }
    Ok(all)
}

static DISPATCH: Statement = Statement {
    text: "select dispatched, fired from windlass.dispatch_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
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
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
    ],
};

/// The decision about one event: its matches among some of its triggers.
#[derive(Clone)]
pub(crate) struct DecidedEvent {
    pub(crate) tenant: Uuid,
    pub(crate) event: Uuid,
    /// The triggers up to this id were done before.
    pub(crate) after: Option<Uuid>,
    /// The triggers up to this id are done now; all of them if `None`.
    pub(crate) until: Option<Uuid>,
    pub(crate) matches: Vec<Match>,
}

/// Returns how many events this call dispatched or advanced, and how many jobs it created.
pub(crate) async fn dispatch(db: &Database, decided: &[DecidedEvent]) -> Result<(u64, u64)> {
    let of_events =
        |column: fn(&DecidedEvent) -> Option<Uuid>| decided.iter().map(column).collect::<Vec<_>>();
    let matches: Vec<(i32, &Match)> =
        (1..).zip(decided).flat_map(|(ord, event)| event.matches.iter().map(move |one| (ord, one))).collect();
    let made = || matches.iter().map(|(_, one)| one.made.as_ref().ok());
    let ords: Vec<_> = matches.iter().map(|(ord, _)| *ord).collect();
    let triggers: Vec<_> = matches.iter().map(|(_, one)| one.trigger).collect();
    let generations: Vec<_> = matches.iter().map(|(_, one)| one.generation).collect();
    let reasons: Vec<_> = matches.iter().map(|(_, one)| one.made.as_ref().err()).collect();
    let jobs: Vec<_> = made().map(|made| made.map(|made| made.job)).collect();
    let keys: Vec<_> = matches.iter().map(|(_, one)| &one.key).collect();
    let payloads: Vec<_> = made().map(|made| made.map(|made| JsonText(&made.payload))).collect();
    let dedupe_keys: Vec<_> = made().map(|made| made.map(|made| &made.dedupe_key)).collect();
    let windows: Vec<_> = matches.iter().map(|(_, one)| one.window).collect();
    let params: [&(dyn ToSql + Sync); 13] = [
        &of_events(|event| Some(event.tenant)),
        &of_events(|event| Some(event.event)),
        &ords,
        &triggers,
        &generations,
        &reasons,
        &jobs,
        &keys,
        &payloads,
        &dedupe_keys,
        &windows,
        &of_events(|event| event.after),
        &of_events(|event| event.until),
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

/// Returns the result, or `None` if the dispatch had not failed.
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
