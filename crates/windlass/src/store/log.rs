//! The logs of runs: written by workers in groups, read from a position.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::bounded::PAGE_BYTES;
use super::database::{Database, Rows, Session, Statement};
use super::job::FenceColumns;
use super::list::begin;
use crate::error::Result;
use crate::model::job::claimed::Fence;
use crate::model::log::{LogChunk, LogPage, LogPosition, LogStream};

pub(crate) const STATEMENTS: &[&Statement] = &[&WRITE, &READ, &STANDING];

/// A chunk of one run's output to be written to the database.
#[derive(Debug, Clone)]
pub(crate) struct NewChunk {
    pub(crate) fence: Fence,
    pub(crate) chunk: i32,
    pub(crate) stream: LogStream,
    pub(crate) text: String,
    /// The chunks before this one are to be deleted.
    pub(crate) keep_from: i32,
}

static WRITE: Statement = Statement {
    text: "select windlass.write_log($1, $2, $3, $4, $5, $6, $7, $8)",
    types: &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// Returns how many chunks were inserted; those of ended attempts are not.
pub(crate) async fn write(db: &Database, chunks: &[NewChunk]) -> Result<i32> {
    let columns = FenceColumns::of(chunks.iter().map(|chunk| &chunk.fence));
    let numbers: Vec<i32> = chunks.iter().map(|chunk| chunk.chunk).collect();
    let streams: Vec<i16> = chunks.iter().map(|chunk| chunk.stream.code()).collect();
    let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
    let keep_from: Vec<i32> = chunks.iter().map(|chunk| chunk.keep_from).collect();
    let row = db
        .query_one(
            &WRITE,
            &[
                &columns.tenants,
                &columns.jobs,
                &columns.attempts,
                &columns.tokens,
                &numbers,
                &streams,
                &texts,
                &keep_from,
            ],
        )
        .await?;
    Ok(row.get(0))
}

static READ: Statement = Statement {
    text: include_str!("sql/log/read.sql"),
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::INT4, Type::INT8],
};

static STANDING: Statement =
    Statement { text: include_str!("sql/log/standing.sql"), types: &[Type::UUID, Type::UUID] };

/// Returns the log after the position, and in the same snapshot whether the job has ended. `None` if there is no such
/// job.
pub(crate) async fn read(
    db: &Database,
    tenant: Uuid,
    job: Uuid,
    after: LogPosition,
    most: i64,
) -> Result<Option<LogPage>> {
    let session = begin(db, Some(tenant)).await?;
    let page = read_in(&session, tenant, job, after, most).await?;
    session.commit().await?;
    Ok(page)
}

/// The same inside an open transaction.
pub(crate) async fn read_in(
    session: &Session,
    tenant: Uuid,
    job: Uuid,
    after: LogPosition,
    most: i64,
) -> Result<Option<LogPage>> {
    let standing = session.query(&STANDING, &[&tenant, &job]).await?;
    let params: [&(dyn ToSql + Sync); 5] = [&tenant, &job, &after.attempt, &after.chunk, &most];
    let Rows { rows, is_cut } = session.query_up_to(PAGE_BYTES, &READ, &params).await?;
    if !standing[0].get::<_, bool>(0) {
        return Ok(None);
    }
    let chunks: Vec<LogChunk> = rows
        .iter()
        .map(|row| LogChunk {
            position: LogPosition { attempt: row.get(0), chunk: row.get(1) },
            stream: LogStream::from_code(row.get(2)),
            at: row.get(3),
            text: row.get(4),
        })
        .collect();
    let is_full = is_cut || i64::try_from(chunks.len()).unwrap_or(i64::MAX) >= most;
    let is_over = standing[0].get::<_, bool>(1) && !is_full;
    let next = chunks.last().map_or(after, |chunk| chunk.position);
    Ok(Some(LogPage { chunks, next, is_over }))
}
