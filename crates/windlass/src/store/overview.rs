//! Reads about jobs that do not read the jobs themselves: since when they wait, and why.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Session, Statement};
use super::list::read_state;
use crate::error::Result;
use crate::model::why::JobFacts;

pub(crate) const STATEMENTS: &[&Statement] = &[&OLDEST, &WHY];

static OLDEST: Statement = Statement { text: include_str!("sql/job/oldest.sql"), types: &[Type::UUID] };

/// Returns since when the oldest queued job of each (tenant, queue) could have run.
pub(crate) async fn oldest(
    session: &Session,
    tenant: Option<Uuid>,
) -> Result<Vec<(Uuid, String, Timestamp)>> {
    let rows = session.query(&OLDEST, &[&tenant]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

static WHY: Statement = Statement { text: include_str!("sql/job/why.sql"), types: &[Type::UUID, Type::UUID] };

pub(crate) async fn why(session: &Session, tenant: Uuid, job: Uuid) -> Result<Option<JobFacts>> {
    let rows = session.query(&WHY, &[&tenant, &job]).await?;
    let read = |row: &Row| {
        let needs: Vec<Uuid> = row.get("waits_for");
        let states: Vec<String> = row.get("their_states");
        Ok(JobFacts {
            status: read_state(row, job)?,
            definition_key: row.get("definition_key"),
            definition_is_active: row.get("is_active"),
            queue: row.get("queue"),
            queue_is_paused: row.get("queue_is_paused"),
            tenant_status: row.get("tenant_status"),
            tenant_weight: row.get("weight"),
            due_at: row.get("due_at"),
            now: row.get("now"),
            cancel_requested: row.get::<_, Option<Timestamp>>("cancel_requested_at").is_some(),
            worker_id: row.get("worker_id"),
            failures: row.get("failures"),
            max_attempts: row.get("max_attempts"),
            waits_for: needs.into_iter().zip(states).collect(),
            able_workers: row.get("able_workers"),
            workers_of_other_queues: row.get("workers_of_other_queues"),
            drained_workers: row.get("drained_workers"),
            gone_workers: row.get("gone_workers"),
            ahead_in_lane: row.get("ahead_in_lane"),
            ahead_by_priority: row.get("ahead_by_priority"),
            limits_reached: row.get("limits_reached"),
            ended_because: row.get("reason"),
            finished_at: row.get("finished_at"),
        })
    };
    rows.first().map(read).transpose()
}
