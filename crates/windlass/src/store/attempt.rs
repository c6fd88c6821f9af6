//! Reading the attempts of a job.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::bounded::Slices;
use super::database::{Session, Statement};
use crate::error::Result;
use crate::model::record::Attempt;

pub(crate) const STATEMENTS: &[&Statement] = &[&ATTEMPTS];

static ATTEMPTS: Statement = Statement {
    text: include_str!("sql/job/attempts.sql"),
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::INT8],
};

/// Returns all attempts, oldest first.
pub(crate) async fn all(session: &Session, tenant: Uuid, job: Uuid) -> Result<Vec<Attempt>> {
    let rows = session.query(&ATTEMPTS, &[&tenant, &job, &0_i32, &i64::MAX]).await?;
    Ok(rows.iter().map(read_attempt).collect())
}

/// Returns the attempts after the given one, as many as fit on a page, and whether there are more.
pub(crate) async fn page(
    session: &Session,
    tenant: Uuid,
    job: Uuid,
    after: i32,
    limit: u16,
) -> Result<(Vec<Attempt>, bool)> {
    let mut slices = Slices::new(limit);
    while let Some((rows, bytes)) = slices.wanted() {
        let after = slices.last().map_or(after, |row| row.get("attempt_no"));
        slices.take(session.query_up_to(bytes, &ATTEMPTS, &[&tenant, &job, &after, &rows]).await?);
    }
    let (rows, has_more) = slices.page();
    Ok((rows.iter().map(read_attempt).collect(), has_more))
}

fn read_attempt(row: &Row) -> Attempt {
    Attempt {
        id: row.get("id"),
        tenant_id: row.get("tenant_id"),
        job_id: row.get("job_id"),
        attempt_no: row.get("attempt_no"),
        worker_id: row.get("worker_id"),
        pid: row.get("pid"),
        started_at: row.get("started_at"),
        finished_at: row.get("finished_at"),
        exit_code: row.get("exit_code"),
        status: row.get("status"),
        stdout_tail: row.get("stdout_tail"),
        stderr_tail: row.get("stderr_tail"),
        error_text: row.get("error_text"),
        reason: row.get("reason"),
        signal: row.get("signal"),
        max_rss_kb: row.get("max_rss_kb"),
        progress_percent: row.get("progress_percent"),
        progress_message: row.get("progress_message"),
    }
}
