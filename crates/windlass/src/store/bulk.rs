//! Operations on many jobs of one tenant. Each writes one audit row, with the filter and the changed jobs.

use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use crate::error::Result;
use crate::model::actor::Actor;

pub(crate) const STATEMENTS: &[&Statement] = &[&CANCEL_MANY, &CANCEL_MANY_AS, &RETRY_MANY, &RETRY_MANY_AS];

/// The jobs that were found, and the filter that found them.
pub(crate) struct Found<'a> {
    pub(crate) tenant: Uuid,
    pub(crate) jobs: &'a [Uuid],
    /// As the audit trail records it.
    pub(crate) filter: &'a Value,
}

static CANCEL_MANY: Statement = Statement {
    text: "select windlass.cancel_many($1, $2, $3)",
    types: &[Type::UUID, Type::UUID_ARRAY, Type::JSONB],
};

/// Cancels jobs; the actor is the login. Returns how many were canceled or requested to stop.
pub(crate) async fn cancel_many(db: &Database, found: &Found<'_>) -> Result<u64> {
    let params: [&(dyn ToSql + Sync); 3] = [&found.tenant, &found.jobs, &found.filter];
    let rows = db.query_for(Some(found.tenant), &CANCEL_MANY, &params).await?;
    Ok(read_changed(&CANCEL_MANY.row_of(rows)?))
}

static RETRY_MANY: Statement = Statement {
    text: "select windlass.retry_many($1, $2, $3, $4)",
    types: &[Type::UUID, Type::UUID_ARRAY, Type::JSONB, Type::TEXT],
};

/// Retries jobs. Returns how many were queued again.
pub(crate) async fn retry_many(db: &Database, found: &Found<'_>, actor: &str) -> Result<u64> {
    let params: [&(dyn ToSql + Sync); 4] = [&found.tenant, &found.jobs, &found.filter, &actor];
    let rows = db.query_for(Some(found.tenant), &RETRY_MANY, &params).await?;
    Ok(read_changed(&RETRY_MANY.row_of(rows)?))
}

fn read_changed(row: &Row) -> u64 {
    row.get::<_, i64>(0).unsigned_abs()
}

static CANCEL_MANY_AS: Statement = Statement {
    text: "select id, result from windlass.cancel_many_as($1, $2, $3, $4, $5, $6, $7)",
    types: AS_TYPES,
};

/// Cancels jobs inside a caller's transaction. Returns the result of each.
pub(crate) async fn cancel_many_as(
    session: &Session,
    found: &Found<'_>,
    by: &Actor,
) -> Result<Vec<(Uuid, String)>> {
    many_as(session, &CANCEL_MANY_AS, found, by).await
}

static RETRY_MANY_AS: Statement = Statement {
    text: "select id, result from windlass.retry_many_as($1, $2, $3, $4, $5, $6, $7)",
    types: AS_TYPES,
};

/// Retries jobs inside a caller's transaction. Returns the result of each.
pub(crate) async fn retry_many_as(
    session: &Session,
    found: &Found<'_>,
    by: &Actor,
) -> Result<Vec<(Uuid, String)>> {
    many_as(session, &RETRY_MANY_AS, found, by).await
}

const AS_TYPES: &[Type] =
    &[Type::UUID, Type::UUID_ARRAY, Type::JSONB, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT];

async fn many_as(
    session: &Session,
    statement: &Statement,
    found: &Found<'_>,
    by: &Actor,
) -> Result<Vec<(Uuid, String)>> {
    let params: [&(dyn ToSql + Sync); 7] =
        [&found.tenant, &found.jobs, &found.filter, &by.name, &by.role, &by.from_address, &by.request_id];
    let rows = session.query(statement, &params).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
