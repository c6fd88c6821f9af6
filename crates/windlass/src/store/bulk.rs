//! The operator's verbs on many jobs of one tenant.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Database, Statement};
use crate::error::{Error, Result};

pub(crate) const STATEMENTS: &[&Statement] = &[&CANCEL_MANY, &RETRY_MANY];

static CANCEL_MANY: Statement =
    Statement { text: include_str!("sql/job/cancel_many.sql"), types: &[Type::UUID, Type::UUID_ARRAY] };

pub(crate) async fn cancel_many(db: &Database, tenant: Uuid, jobs: &[Uuid]) -> Result<u64> {
    read_changed(&db.query_for(Some(tenant), &CANCEL_MANY, &[&tenant, &jobs]).await?)
}

static RETRY_MANY: Statement = Statement {
    text: include_str!("sql/job/retry_many.sql"),
    types: &[Type::UUID, Type::UUID_ARRAY, Type::TEXT],
};

pub(crate) async fn retry_many(db: &Database, tenant: Uuid, jobs: &[Uuid], actor: &str) -> Result<u64> {
    read_changed(&db.query_for(Some(tenant), &RETRY_MANY, &[&tenant, &jobs, &actor]).await?)
}

fn read_changed(rows: &[Row]) -> Result<u64> {
    let changed: i64 = rows.first().ok_or_else(Error::unanswered)?.get(0);
    Ok(changed.unsigned_abs())
}
