//! Statements of the test kit. Only for test databases.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Statement, query_unnamed};
use super::param::read_texts;
use crate::error::{Error, Result};
use crate::model::job::state::State;

pub(crate) const STATEMENTS: &[&Statement] = &[&ADVANCE, &DUE, &ENQUEUED];

static ADVANCE: Statement = Statement { text: include_str!("sql/testing/advance.sql"), types: &[Type::TEXT] };

/// In a transaction as the role that owns the tables.
pub(crate) async fn advance(client: &mut tokio_postgres::Client, by: Duration) -> Result<u64> {
    let tx = client.transaction().await?;
    tx.batch_execute("set local role windlass_owner").await?;
    let by = format!("{} microseconds", by.as_micros());
    let rows = query_unnamed(&tx, &ADVANCE, &[&by]).await?;
    tx.commit().await?;
    Ok(rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

static DUE: Statement = Statement { text: include_str!("sql/testing/due.sql"), types: &[Type::TEXT_ARRAY] };

pub(crate) async fn due(client: &mut tokio_postgres::Client, keys: &[String]) -> Result<i64> {
    let tx = client.transaction().await?;
    tx.batch_execute("set local role windlass_owner").await?;
    let rows = query_unnamed(&tx, &DUE, &[&keys]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

static ENQUEUED: Statement =
    Statement { text: include_str!("sql/testing/enqueued.sql"), types: &[Type::TEXT] };

/// A job that has not ended.
#[derive(Debug, Clone)]
pub(crate) struct UnfinishedRow {
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) state: State,
    pub(crate) payload: String,
    pub(crate) priority: i32,
    pub(crate) queue: String,
    pub(crate) scheduled_for: Option<Timestamp>,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) tags: Vec<String>,
}

pub(crate) async fn enqueued<C: tokio_postgres::GenericClient + Sync>(
    client: &C,
    key: &str,
) -> Result<Vec<UnfinishedRow>> {
    let rows = query_unnamed(client, &ENQUEUED, &[&key]).await?;
    rows.iter()
        .map(|row| {
            let status: &str = row.get(2);
            let unknown = |_| Error::UnexpectedResult { message: format!("a job has the state {status:?}") };
            Ok(UnfinishedRow {
                id: row.get(0),
                tenant_id: row.get(1),
                state: status.parse().map_err(unknown)?,
                payload: row.get(3),
                priority: row.get(4),
                queue: row.get(5),
                scheduled_for: row.get(6),
                dedupe_key: row.get(7),
                tags: read_texts(row, 8),
            })
        })
        .collect()
}
