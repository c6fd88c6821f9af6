//! The ways to enqueue a job: routed (validated here, one statement) and through the SQL function `enqueue`.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement, query_unnamed};
use super::param::{JsonOut, JsonText};
use crate::error::Result;
use crate::model::new_job::{Enqueued, IfUnmet, NewJob};

pub(crate) const STATEMENTS: &[&Statement] =
    &[&ROUTE, &KEEPER_ROUTE, &ROUTED, &ALIKE, &ROUTED_MANY, &ENQUEUE, &PLACED];

/// The data of a (tenant, definition, queue, priority) that is needed to enqueue without another lookup.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) tenant: Uuid,
    pub(crate) lane: i32,
    pub(crate) max_attempts: i16,
    pub(crate) is_guarded: bool,
    pub(crate) arg_schema: String,
}

static ROUTE: Statement = Statement {
    text: "select tenant_id, lane, max_attempts, is_guarded, arg_schema from windlass.route_of($1, $2, $3, $4)",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::INT4],
};

pub(crate) async fn route(
    db: &Database,
    tenant: Option<Uuid>,
    key: &str,
    queue: Option<&str>,
    priority: Option<i32>,
) -> Result<Route> {
    let rows = db.query_for(tenant, &ROUTE, &[&tenant, &key, &queue, &priority]).await?;
    Ok(read_route(&ROUTE.row_of(rows)?))
}

static KEEPER_ROUTE: Statement = Statement {
    text: "select tenant_id, lane, max_attempts, is_guarded, arg_schema from windlass.keeper_route($1, $2)",
    types: &[Type::UUID, Type::TEXT],
};

/// The same for a keeper, with the defaults of the definition: fails with a lock timeout instead of waiting for an open
/// transaction of the tenant.
pub(crate) async fn keeper_route(db: &Database, tenant: Uuid, key: &str) -> Result<Route> {
    let rows = db.query_for(Some(tenant), &KEEPER_ROUTE, &[&tenant, &key]).await?;
    Ok(read_route(&KEEPER_ROUTE.row_of(rows)?))
}

/// The same inside the caller's transaction.
pub(crate) async fn route_in(
    session: &Session,
    tenant: Option<Uuid>,
    key: &str,
    queue: Option<&str>,
    priority: Option<i32>,
) -> Result<Route> {
    let rows = session.query(&ROUTE, &[&tenant, &key, &queue, &priority]).await?;
    Ok(read_route(&ROUTE.row_of(rows)?))
}

fn read_route(row: &tokio_postgres::Row) -> Route {
    Route {
        tenant: row.get(0),
        lane: row.get(1),
        max_attempts: row.get(2),
        is_guarded: row.get(3),
        arg_schema: row.get::<_, JsonOut<'_>>(4).0.to_owned(),
    }
}

static ROUTED: Statement = Statement {
    text: "select windlass.enqueue_routed($1, $2, $3, $4, $5, $6)",
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::INT2, Type::JSON, Type::JSONB],
};

/// A job with a known lane and without a guard.
pub(crate) struct Routed<'a> {
    pub(crate) tenant: Uuid,
    pub(crate) job: Uuid,
    pub(crate) lane: i32,
    pub(crate) max_attempts: i16,
    pub(crate) payload: Cow<'a, str>,
    pub(crate) extra: Option<String>,
}

impl Routed<'_> {
    pub(crate) fn into_owned(self) -> Routed<'static> {
        let Self { tenant, job, lane, max_attempts, payload, extra } = self;
        Routed { tenant, job, lane, max_attempts, payload: Cow::Owned(payload.into_owned()), extra }
    }
}

pub(crate) async fn routed(db: &Database, new: &Routed<'_>) -> Result<()> {
    let extra = new.extra.as_deref().map(JsonText);
    db.query_for(
        Some(new.tenant),
        &ROUTED,
        &[&new.tenant, &new.job, &new.lane, &new.max_attempts, &JsonText(&new.payload), &extra],
    )
    .await?;
    Ok(())
}

static PLACED: Statement =
    Statement { text: include_str!("sql/job/placed.sql"), types: &[Type::UUID, Type::UUID_ARRAY] };

/// Returns the creation times and the definitions' keys of these jobs, as far as they exist.
pub(crate) async fn placed(
    session: &Session,
    tenant: Uuid,
    jobs: &[Uuid],
) -> Result<HashMap<Uuid, (Timestamp, String)>> {
    let rows = session.query(&PLACED, &[&tenant, &jobs]).await?;
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect())
}

/// The maximum number of queued jobs in one row. The sequence of the line leaves that many numbers to each row.
const MAX_PART: usize = 64;

/// Returns the row of each job, as a number from 1: consecutive jobs of a lane with the same number of attempts share a
/// row.
fn parts<'a, 'b: 'a>(new: impl Iterator<Item = &'a Routed<'b>>) -> Vec<i32> {
    let mut open: HashMap<i32, (i32, i16, usize)> = HashMap::new();
    let mut last = 0;
    let part_of = |job: &Routed<'_>| {
        let (part, attempts, members) = open.entry(job.lane).or_insert((0, job.max_attempts, 0));
        if *part == 0 || *attempts != job.max_attempts || *members == MAX_PART {
            last += 1;
            (*part, *attempts, *members) = (last, job.max_attempts, 0);
        }
        *members += 1;
        *part
    };
    new.map(part_of).collect()
}

static ALIKE: Statement = Statement {
    text: "select windlass.enqueue_alike($1, $2, $3, $4, $5)",
    types: &[Type::UUID, Type::INT4, Type::INT2, Type::UUID_ARRAY, Type::JSON_ARRAY],
};

static ROUTED_MANY: Statement = Statement {
    text: "select windlass.enqueue_routed_many($1, $2, $3, $4, $5, $6, $7)",
    types: &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::JSON_ARRAY,
        Type::JSONB_ARRAY,
    ],
};

pub(crate) async fn routed_many(session: &Session, new: &[Routed<'_>]) -> Result<()> {
    let Some(first) = new.first() else { return Ok(()) };
    let jobs: Vec<_> = new.iter().map(|job| job.job).collect();
    let is_like_first = |job: &Routed<'_>| {
        job.tenant == first.tenant
            && job.lane == first.lane
            && job.max_attempts == first.max_attempts
            && job.extra.is_none()
    };
    if new.iter().all(is_like_first) {
        let payloads: Vec<_> = new.iter().map(|job| JsonText(&job.payload)).collect();
        session.query(&ALIKE, &[&first.tenant, &first.lane, &first.max_attempts, &jobs, &payloads]).await?;
        return Ok(());
    }
    let all: Vec<&Routed<'_>> = new.iter().collect();
    session.query(&ROUTED_MANY, &RoutedColumns::of(&all).params()).await?;
    Ok(())
}

/// Many jobs as columns, for enqueue_routed_many.
pub(super) struct RoutedColumns<'a> {
    tenants: Vec<Uuid>,
    jobs: Vec<Uuid>,
    lanes: Vec<i32>,
    max_attempts: Vec<i16>,
    parts: Vec<i32>,
    payloads: Vec<JsonText<'a>>,
    /// `None` if no job has any.
    extras: Option<Vec<Option<JsonText<'a>>>>,
}

impl<'a> RoutedColumns<'a> {
    pub(super) fn of(new: &[&'a Routed<'_>]) -> Self {
        let has_extras = new.iter().any(|job| job.extra.is_some());
        Self {
            tenants: new.iter().map(|job| job.tenant).collect(),
            jobs: new.iter().map(|job| job.job).collect(),
            lanes: new.iter().map(|job| job.lane).collect(),
            max_attempts: new.iter().map(|job| job.max_attempts).collect(),
            parts: parts(new.iter().copied()),
            payloads: new.iter().map(|job| JsonText(&job.payload)).collect(),
            extras: has_extras.then(|| new.iter().map(|job| job.extra.as_deref().map(JsonText)).collect()),
        }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.tenants,
            &self.jobs,
            &self.lanes,
            &self.max_attempts,
            &self.parts,
            &self.payloads,
            &self.extras,
        ]
    }
}

pub(crate) static ENQUEUE: Statement = Statement {
    text: "select id, status, is_duplicate from windlass.enqueue($1, $2, $3, $4, $5, $6, make_interval(secs => $7), $8, $9, \
           $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)",
    types: &[
        Type::TEXT,
        Type::JSONB,
        Type::UUID,
        Type::TEXT,
        Type::INT4,
        Type::TIMESTAMPTZ,
        Type::FLOAT8,
        Type::TEXT,
        Type::JSONB,
        Type::TEXT,
        Type::TEXT,
        Type::UUID_ARRAY,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::INT4,
        Type::TIMESTAMPTZ,
        Type::UUID,
        Type::UUID,
        Type::TEXT,
        Type::UUID,
    ],
};

/// On one of our connections, inside its open transaction, if any.
pub(crate) async fn guarded(session: &Session, new: &NewJob) -> Result<Enqueued> {
    let call = EnqueueParams::of(new)?;
    Ok(read_enqueued(&session.query(&ENQUEUE, &call.params()).await?[0]))
}

/// In a separate transaction.
pub(crate) async fn guarded_on(db: &Database, new: &NewJob) -> Result<Enqueued> {
    let call = EnqueueParams::of(new)?;
    let rows = db.query_for(new.options.tenant, &ENQUEUE, &call.params()).await?;
    Ok(read_enqueued(&ENQUEUE.row_of(rows)?))
}

/// On the caller's own connection or transaction.
pub(crate) async fn guarded_in<C: tokio_postgres::GenericClient + Sync>(
    client: &C,
    new: &NewJob,
) -> Result<Enqueued> {
    let call = EnqueueParams::of(new)?;
    Ok(read_enqueued(&query_unnamed(client, &ENQUEUE, &call.params()).await?[0]))
}

/// A new job as parameters of the SQL function.
pub(crate) struct EnqueueParams<'a> {
    pub(crate) new: &'a NewJob,
    pub(crate) payload: JsonText<'a>,
    pub(crate) delay: Option<f64>,
    pub(crate) uniqueness: Option<serde_json::Value>,
    pub(crate) depends_on: Option<&'a Vec<Uuid>>,
    pub(crate) if_unmet: Option<&'static str>,
    pub(crate) tags: Option<&'a Vec<String>>,
    pub(crate) source: &'static str,
}

impl<'a> EnqueueParams<'a> {
    pub(crate) fn of(new: &'a NewJob) -> Result<Self> {
        let options = &new.options;
        Ok(Self {
            new,
            payload: JsonText(new.payload_text()?),
            delay: options.delay.map(|delay| delay.as_secs_f64()),
            uniqueness: options.unique.and_then(|unique| serde_json::to_value(unique).ok()),
            depends_on: (!options.depends_on.is_empty()).then_some(&options.depends_on),
            if_unmet: options.if_unmet.map(IfUnmet::as_str),
            tags: (!options.tags.is_empty()).then_some(&options.tags),
            source: options.source.as_str(),
        })
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 25] {
        let options = &self.new.options;
        [
            &self.new.definition_key,
            &self.payload,
            &options.tenant,
            &options.queue,
            &options.priority,
            &options.scheduled_for,
            &self.delay,
            &options.dedupe_key,
            &self.uniqueness,
            &options.idempotency_key,
            &options.ordering_key,
            &self.depends_on,
            &self.if_unmet,
            &options.subject_type,
            &options.subject_id,
            &self.tags,
            &options.correlation_id,
            &self.source,
            &options.source_ref,
            &options.max_attempts,
            &options.deadline,
            &options.parent_id,
            &options.created_by,
            &options.trace,
            &options.id,
        ]
    }
}

fn read_enqueued(row: &tokio_postgres::Row) -> Enqueued {
    enqueued(row.get(0), row.get(1), row.get(2))
}

/// Builds the result from the three columns of the SQL function.
pub(crate) fn enqueued(id: Uuid, status: Option<&str>, is_duplicate: bool) -> Enqueued {
    Enqueued { id, state: status.and_then(|status| status.parse().ok()), is_duplicate }
}
