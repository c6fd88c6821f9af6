//! Operations on existing jobs: progress, cancel, retry and purge.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::bulk::Found;
use super::database::{Database, Session, Statement};
use crate::error::Result;
use crate::model::actor::Actor;
use crate::model::job::claimed::Fence;

pub(crate) const STATEMENTS: &[&Statement] =
    &[&PROGRESS, &CANCEL, &CANCEL_AS, &RETRY, &RETRY_AS, &PURGE, &PURGE_SUBJECT];

/// Fences as columns for statements.
#[derive(Default)]
pub(crate) struct FenceColumns {
    pub(crate) tenants: Vec<Uuid>,
    pub(crate) jobs: Vec<Uuid>,
    pub(crate) attempts: Vec<i32>,
    pub(crate) tokens: Vec<Uuid>,
}

impl FenceColumns {
    pub(crate) fn of<'a>(fences: impl Iterator<Item = &'a Fence>) -> Self {
        let mut columns = Self::default();
        for fence in fences {
            columns.tenants.push(fence.tenant);
            columns.jobs.push(fence.job);
            columns.attempts.push(fence.attempt);
            columns.tokens.push(fence.token);
        }
        columns
    }
}

static PROGRESS: Statement = Statement {
    text: "select windlass.report_progress($1, $2, $3, $4, $5, $6)",
    types: &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::FLOAT4_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

/// The progress of one running job.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) fence: Fence,
    pub(crate) percent: Option<f32>,
    pub(crate) message: Option<String>,
}

pub(crate) async fn report_progress(db: &Database, reports: &[Report]) -> Result<()> {
    let columns = FenceColumns::of(reports.iter().map(|report| &report.fence));
    let percents: Vec<_> = reports.iter().map(|report| report.percent).collect();
    let messages: Vec<_> = reports.iter().map(|report| report.message.as_deref()).collect();
    db.query(
        &PROGRESS,
        &[&columns.tenants, &columns.jobs, &columns.attempts, &columns.tokens, &percents, &messages],
    )
    .await?;
    Ok(())
}

static CANCEL: Statement =
    Statement { text: "select windlass.cancel($1, $2)", types: &[Type::UUID, Type::UUID] };

pub(crate) async fn cancel(db: &Database, tenant: Uuid, job: Uuid) -> Result<String> {
    let rows = db.query_for(Some(tenant), &CANCEL, &[&tenant, &job]).await?;
    Ok(CANCEL.row_of(rows)?.get(0))
}

static CANCEL_AS: Statement = Statement {
    text: "select windlass.cancel_as($1, $2, $3, $4, $5, $6)",
    types: &[Type::UUID, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Inside a caller's transaction; writes the audit row.
pub(crate) async fn cancel_as(session: &Session, tenant: Uuid, job: Uuid, by: &Actor) -> Result<String> {
    let params: [&(dyn ToSql + Sync); 6] =
        [&tenant, &job, &by.name, &by.role, &by.from_address, &by.request_id];
    Ok(session.query(&CANCEL_AS, &params).await?[0].get(0))
}

static RETRY: Statement = Statement {
    text: "select result, holder from windlass.retry($1, $2, $3)",
    types: &[Type::UUID, Type::UUID, Type::TEXT],
};

pub(crate) async fn retry(
    db: &Database,
    tenant: Uuid,
    job: Uuid,
    actor: &str,
) -> Result<(String, Option<Uuid>)> {
    let rows = db.query_for(Some(tenant), &RETRY, &[&tenant, &job, &actor]).await?;
    Ok(read_retried(&RETRY.row_of(rows)?))
}

static RETRY_AS: Statement = Statement {
    text: "select result, holder from windlass.retry_as($1, $2, $3, $4, $5, $6)",
    types: &[Type::UUID, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Inside a caller's transaction; writes the audit row.
pub(crate) async fn retry_as(
    session: &Session,
    tenant: Uuid,
    job: Uuid,
    by: &Actor,
) -> Result<(String, Option<Uuid>)> {
    let params: [&(dyn ToSql + Sync); 6] =
        [&tenant, &job, &by.name, &by.role, &by.from_address, &by.request_id];
    Ok(read_retried(&RETRY_AS.row_of(session.query(&RETRY_AS, &params).await?)?))
}

fn read_retried(row: &tokio_postgres::Row) -> (String, Option<Uuid>) {
    (row.get(0), row.get(1))
}

static PURGE: Statement = Statement {
    text: "select windlass.purge($1, $2, false, $3)",
    types: &[Type::UUID, Type::UUID_ARRAY, Type::JSONB],
};

/// Inside a caller's transaction; writes the audit row.
pub(crate) async fn purge(session: &Session, found: &Found<'_>) -> Result<i32> {
    Ok(session.query(&PURGE, &[&found.tenant, &found.jobs, &found.filter]).await?[0].get(0))
}

static PURGE_SUBJECT: Statement = Statement {
    text: "select windlass.purge_subject($1, $2, $3, $4)",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::INT4],
};

pub(crate) async fn purge_subject(
    session: &Session,
    tenant: Uuid,
    (kind, id): (&str, &str),
    most: i32,
) -> Result<i32> {
    Ok(session.query(&PURGE_SUBJECT, &[&tenant, &kind, &id, &most]).await?[0].get(0))
}
