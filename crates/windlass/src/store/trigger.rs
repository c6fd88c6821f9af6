//! Triggers in the database: managing them, finding which are due, and firing.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::param::{JsonText, read_json};
use super::worker::millis;
use crate::error::{Error, Result};
use crate::model::record::{Fire, FireOutcome};
use crate::model::trigger::{NewTrigger, Trigger, TriggerType};

pub(crate) const STATEMENTS: &[&Statement] =
    &[&NOW, &CREATE, &UPDATE, &DELETE, &LIST, &FIRES, &RUN, &DUE, &NEXT_DUE, &LEAD, &FIRE];

static NOW: Statement = Statement { text: include_str!("sql/trigger/now.sql"), types: &[Type::UUID] };

/// Returns the database's time, and the tenant's time zone.
pub(crate) async fn now(session: &Session, tenant: Uuid) -> Result<(Timestamp, Option<String>)> {
    let rows = session.query(&NOW, &[&tenant]).await?;
    Ok((rows[0].get(0), rows[0].get(1)))
}

static CREATE: Statement = Statement {
    text: "select windlass.create_trigger($1, $2, $3)",
    types: &[Type::UUID, Type::JSONB, Type::TIMESTAMPTZ],
};

pub(crate) async fn create(
    session: &Session,
    tenant: Uuid,
    fields: &NewTrigger,
    next_due: Option<Timestamp>,
) -> Result<Uuid> {
    let rows = session.query(&CREATE, &[&tenant, &JsonText(&text_of(fields)?), &next_due]).await?;
    Ok(rows[0].get(0))
}

static UPDATE: Statement = Statement {
    text: "select windlass.update_trigger($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    types: &[
        Type::UUID,
        Type::UUID,
        Type::INT4,
        Type::JSONB,
        Type::BOOL,
        Type::TIMESTAMPTZ,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TEXT,
        Type::TIMESTAMPTZ,
    ],
};

/// When a trigger is due from now on, if that changes, and the past instants that will never be decided.
pub(crate) enum Times {
    Kept,
    Changed { next_due: Option<Timestamp>, missed: Vec<Timestamp>, why: &'static str },
}

/// Returns whether the trigger was still as in `old`: its generation and, if its times change, its next instant, which
/// must not have passed since unless it is among the missed ones.
pub(crate) async fn update(
    session: &Session,
    old: &Trigger,
    fields: &NewTrigger,
    times: Times,
) -> Result<bool> {
    let (changes, next_due, missed, why) = match times {
        Times::Kept => (false, None, Vec::new(), ""),
        Times::Changed { next_due, missed, why } => (true, next_due, missed, why),
    };
    let fields = text_of(fields)?;
    let fields = JsonText(&fields);
    let params: [&(dyn ToSql + Sync); 9] = [
        &old.tenant_id,
        &old.id,
        &old.generation,
        &fields,
        &changes,
        &next_due,
        &missed,
        &why,
        &old.undecided_from,
    ];
    Ok(session.query(&UPDATE, &params).await?[0].get::<_, Option<i32>>(0).is_some())
}

static DELETE: Statement = Statement {
    text: "select windlass.delete_trigger($1, $2, $3, $4, $5)",
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::TIMESTAMPTZ_ARRAY, Type::TIMESTAMPTZ],
};

/// Returns whether the trigger was still as in `old`; see [`update`].
pub(crate) async fn delete(session: &Session, old: &Trigger, missed: &[Timestamp]) -> Result<bool> {
    let params: [&(dyn ToSql + Sync); 5] =
        [&old.tenant_id, &old.id, &old.generation, &missed, &old.undecided_from];
    Ok(session.query(&DELETE, &params).await?[0].get(0))
}

static LIST: Statement = Statement {
    text: include_str!("sql/trigger/list.sql"),
    types: &[Type::UUID, Type::UUID, Type::TEXT, Type::UUID, Type::INT8, Type::INT8],
};

/// Selects triggers of a tenant.
#[derive(Default)]
pub(crate) struct WhichTriggers {
    pub(crate) id: Option<Uuid>,
    pub(crate) kind: Option<TriggerType>,
    pub(crate) after: Option<Uuid>,
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

pub(crate) async fn list(session: &Session, tenant: Uuid, which: &WhichTriggers) -> Result<Vec<Trigger>> {
    let kind = which.kind.map(|kind| match kind {
        TriggerType::Event => "event",
        TriggerType::Schedule => "schedule",
    });
    let rows =
        session.query(&LIST, &[&tenant, &which.id, &kind, &which.after, &which.limit, &which.offset]).await?;
    rows.iter().map(|row| read_json(row, 0)).collect()
}

static FIRES: Statement = Statement {
    text: include_str!("sql/trigger/fires.sql"),
    types: &[Type::UUID, Type::UUID, Type::TIMESTAMPTZ, Type::INT8],
};

pub(crate) async fn fires(
    session: &Session,
    tenant: Uuid,
    trigger: Uuid,
    before: Option<Timestamp>,
    limit: i64,
) -> Result<Vec<Fire>> {
    let rows = session.query(&FIRES, &[&tenant, &trigger, &before, &limit]).await?;
    rows.iter().map(|row| read_json(row, 0)).collect()
}

static RUN: Statement = Statement {
    text: "select due_at, outcome, reason, job_id from windlass.run_trigger($1, $2, $3, $4, $5, $6, $7)",
    types: &[
        Type::UUID,
        Type::UUID,
        Type::INT4,
        Type::TIMESTAMPTZ_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT,
        Type::JSONB_ARRAY,
    ],
};

/// Fires now (`dues` is `None`) or for past instants. Instants that were fired before are omitted from the result.
pub(crate) async fn run(
    session: &Session,
    trigger: &Trigger,
    dues: Option<&[Timestamp]>,
    jobs: &[Uuid],
    payloads: &[String],
) -> Result<Vec<FireOutcome>> {
    let payloads: Vec<_> = payloads.iter().map(|payload| JsonText(payload)).collect();
    let key = &trigger.fields.definition_key;
    let params: [&(dyn ToSql + Sync); 7] =
        [&trigger.tenant_id, &trigger.id, &trigger.generation, &dues, &jobs, key, &payloads];
    let rows = session.query(&RUN, &params).await?;
    let read = |row: &Row| FireOutcome {
        due_at: row.get(0),
        outcome: row.get(1),
        reason: row.get(2),
        job_id: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

static LEAD: Statement =
    Statement { text: "select windlass.lead($1, $2, $3)", types: &[Type::TEXT, Type::UUID, Type::INT4] };

/// Returns the epoch while this holder leads the duty.
pub(crate) async fn lead(db: &Database, duty: &str, holder: Uuid, lease: Duration) -> Result<Option<i64>> {
    Ok(db.query_one(&LEAD, &[&duty, &holder, &whole_millis(lease)]).await?.get(0))
}

static DUE: Statement = Statement {
    text: "select fields, at from windlass.due_triggers($1, $2, $3)",
    types: &[Type::INT4, Type::INT4, Type::INT4],
};

/// A trigger that this release cannot read: its tenant, its id, and the error.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) tenant: Uuid,
    pub(crate) id: Uuid,
    pub(crate) generation: i32,
    pub(crate) event_name: Option<String>,
    pub(crate) reason: String,
}

/// The fields that can be read of a row that is not a complete trigger.
#[derive(serde::Deserialize)]
struct Outline {
    tenant_id: Uuid,
    id: Uuid,
    generation: i32,
    event_name: Option<String>,
}

pub(crate) fn read_trigger(row: &Row) -> Result<Result<Trigger, Unreadable>> {
    read_json(row, 0).map(Ok).or_else(|error| {
        let Outline { tenant_id: tenant, id, generation, event_name } = read_json(row, 0)?;
        Ok(Err(Unreadable { tenant, id, generation, event_name, reason: error.to_string() }))
    })
}

/// Returns triggers that have been due for at least this long, and the time of that check. A trigger that this release
/// cannot read is returned as an error.
pub(crate) async fn due(
    db: &Database,
    late: Duration,
    most: i32,
    most_bytes: i32,
) -> Result<Vec<(Result<Trigger, Unreadable>, Timestamp)>> {
    let rows = db.query(&DUE, &[&whole_millis(late), &most, &most_bytes]).await?;
    rows.iter().map(|row| Ok((read_trigger(row)?, row.get(1)))).collect()
}

static NEXT_DUE: Statement = Statement { text: "select windlass.next_due_ms()", types: &[] };

pub(crate) async fn next_due(db: &Database) -> Result<Option<Duration>> {
    Ok(db.query_one(&NEXT_DUE, &[]).await?.get::<_, Option<i64>>(0).map(millis))
}

static FIRE: Statement = Statement {
    text: "select fired, skipped from windlass.fire_triggers($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    types: &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::INT4_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::JSONB_ARRAY,
        Type::FLOAT8_ARRAY,
    ],
};

/// The decisions of the scheduler, as columns for the statement: triggers, then their instants.
#[derive(Default)]
pub(crate) struct DecidedFires {
    pub(crate) tenants: Vec<Uuid>,
    pub(crate) triggers: Vec<Uuid>,
    pub(crate) generations: Vec<i32>,
    pub(crate) expected: Vec<Timestamp>,
    pub(crate) next_dues: Vec<Option<Timestamp>>,
    pub(crate) instants: Vec<DueInstant>,
}

pub(crate) struct DueInstant {
    /// The number of the trigger, from 1.
    pub(crate) ord: i32,
    pub(crate) due: Timestamp,
    pub(crate) what: What,
}

pub(crate) enum What {
    Skip(String),
    Fire { job: Uuid, lane: Option<i32>, max_attempts: i16, key: String, payload: String, delay: f64 },
}

/// Returns how many instants fired, and how many were skipped.
pub(crate) async fn fire(db: &Database, decided: &DecidedFires) -> Result<(u64, u64)> {
    let all = &decided.instants;
    let ords: Vec<_> = all.iter().map(|instant| instant.ord).collect();
    let dues: Vec<_> = all.iter().map(|instant| instant.due).collect();
    let mut reasons = Vec::with_capacity(all.len());
    let mut jobs = Vec::with_capacity(all.len());
    let mut lanes = Vec::with_capacity(all.len());
    let mut attempts = Vec::with_capacity(all.len());
    let mut keys = Vec::with_capacity(all.len());
    let mut payloads = Vec::with_capacity(all.len());
    let mut delays = Vec::with_capacity(all.len());
    for instant in all {
        let (reason, fire) = match &instant.what {
            What::Skip(reason) => (Some(reason), None),
            What::Fire { job, lane, max_attempts, key, payload, delay } => {
                (None, Some((job, lane, max_attempts, key, payload, delay)))
            }
        };
        reasons.push(reason);
        jobs.push(fire.map(|fire| *fire.0));
        lanes.push(fire.and_then(|fire| *fire.1));
        attempts.push(fire.map(|fire| *fire.2));
        keys.push(fire.map(|fire| fire.3));
        payloads.push(fire.map(|fire| JsonText(fire.4)));
        delays.push(fire.map(|fire| *fire.5));
    }
    let row = db
        .query_one(
            &FIRE,
            &[
                &decided.tenants,
                &decided.triggers,
                &decided.generations,
                &decided.expected,
                &decided.next_dues,
                &ords,
                &dues,
                &reasons,
                &jobs,
                &lanes,
                &attempts,
                &keys,
                &payloads,
                &delays,
            ],
        )
        .await?;
    let count = |column: usize| u64::from(row.get::<_, i32>(column).unsigned_abs());
    Ok((count(0), count(1)))
}

pub(crate) fn whole_millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn text_of(fields: &NewTrigger) -> Result<String> {
    let mut value =
        serde_json::to_value(fields).map_err(|error| Error::refused("trigger", error.to_string()))?;
    if let Value::Object(members) = &mut value {
        // A null template is JSON null; any other null field is absent.
        members.retain(|name, value| name == "payload_template" || !value.is_null());
    }
    Ok(value.to_string())
}
