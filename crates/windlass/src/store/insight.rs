//! Reads for the user interface, and the sampler behind them.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use crate::error::Result;
use crate::model::report::{Activity, DeadLetter, Run};

pub(crate) const STATEMENTS: &[&Statement] =
    &[&SAMPLE, &ACTIVITY, &RUNS, &TENANT_NAMES, &CHILDREN, &DEAD_LETTERS];

static SAMPLE: Statement = Statement { text: "select windlass.sample_activity()", types: &[] };

pub(crate) async fn sample_activity(db: &Database) -> Result<i32> {
    Ok(db.query_one(&SAMPLE, &[]).await?.get(0))
}

static ACTIVITY: Statement = Statement {
    text: include_str!("sql/insight/activity.sql"),
    types: &[Type::UUID, Type::TIMESTAMPTZ, Type::FLOAT8],
};

pub(crate) async fn activity(
    session: &Session,
    tenant: Uuid,
    since: Timestamp,
    seconds: u32,
) -> Result<Vec<Activity>> {
    let rows = session.query(&ACTIVITY, &[&tenant, &since, &f64::from(seconds)]).await?;
    let read = |row: &Row| Activity {
        from: row.get("from_at"),
        queue: row.get("queue"),
        succeeded: row.get("succeeded"),
        failed: row.get("failed"),
        queued: row.get("queued"),
        running: row.get("running"),
    };
    Ok(rows.iter().map(read).collect())
}

static RUNS: Statement =
    Statement { text: include_str!("sql/insight/runs.sql"), types: &[Type::UUID_ARRAY, Type::INT8] };

pub(crate) async fn runs(session: &Session, tenants: &[Uuid], most_of_each: u16) -> Result<Vec<Run>> {
    let rows = session.query(&RUNS, &[&tenants, &i64::from(most_of_each)]).await?;
    Ok(rows.iter().map(read_run).collect())
}

fn read_run(row: &Row) -> Run {
    Run {
        job_id: row.get("job_id"),
        attempt: row.get("attempt"),
        queue: row.get("queue"),
        definition_key: row.get("definition_key"),
        outcome: row.get::<_, Option<String>>("outcome").unwrap_or_default(),
        ready_at: row.get("ready_at"),
        started_at: row.get("started_at"),
        finished_at: row.get("finished_at"),
    }
}

static TENANT_NAMES: Statement =
    Statement { text: include_str!("sql/insight/tenant_names.sql"), types: &[Type::UUID_ARRAY, Type::INT8] };

pub(crate) async fn tenant_names(
    session: &Session,
    ids: Option<&[Uuid]>,
    most: u16,
) -> Result<Vec<(Uuid, String)>> {
    let rows = session.query(&TENANT_NAMES, &[&ids, &i64::from(most)]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

static CHILDREN: Statement = Statement {
    text: include_str!("sql/insight/children.sql"),
    types: &[Type::UUID, Type::UUID, Type::INT8],
};

pub(crate) async fn children(session: &Session, tenant: Uuid, job: Uuid, most: u16) -> Result<Vec<Uuid>> {
    let rows = session.query(&CHILDREN, &[&tenant, &job, &i64::from(most)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

static DEAD_LETTERS: Statement =
    Statement { text: include_str!("sql/insight/dead_letters.sql"), types: &[Type::UUID, Type::INT8] };

pub(crate) async fn dead_letters(session: &Session, tenant: Uuid, most: u16) -> Result<Vec<DeadLetter>> {
    let rows = session.query(&DEAD_LETTERS, &[&tenant, &i64::from(most)]).await?;
    let read = |row: &Row| DeadLetter {
        job_id: row.get("job_id"),
        definition_key: row.get("definition_key"),
        finished_at: row.get("finished_at"),
        attempts: row.get("attempt"),
        reason: row.get("reason"),
        error_text: row.get("error_text"),
    };
    Ok(rows.iter().map(read).collect())
}
