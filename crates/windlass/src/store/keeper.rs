//! The keeper's duties in the database, one call each.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::database::{Database, Statement};
use super::job::FenceColumns;
use super::param::JsonText;
use super::settle::{Settled, read_settled};
use super::worker::millis;
use crate::error::Result;
use crate::model::job::claimed::Fence;
use crate::model::job::settle::Budget;

pub(crate) const STATEMENTS: &[&Statement] = &[
    &PROMOTE,
    &LOST,
    &REAP,
    &EXPIRE,
    &UNBLOCK,
    &FOLD,
    &PARTITIONS,
    &SUMMARIZE,
    &PRUNE,
    &PRUNE_EVENTS,
    &RETIRE_LANES,
    &RETIRE,
];

static PROMOTE: Statement =
    Statement { text: "select promoted, has_more, next_due_ms from windlass.promote()", types: &[] };

/// Returns how many jobs became due, whether there are more, and the time until the next one.
pub(crate) async fn promote(db: &Database) -> Result<(i32, bool, Option<Duration>)> {
    let row = db.query_one(&PROMOTE, &[]).await?;
    Ok((row.get(0), row.get(1), row.get::<_, Option<i64>>(2).map(millis)))
}

/// A job whose worker missed its heartbeats.
#[derive(Debug)]
pub(crate) struct LostJob {
    pub(crate) worker: i32,
    pub(crate) fence: Fence,
    pub(crate) budget: Budget,
    pub(crate) definition_key: String,
}

static LOST: Statement = Statement {
    text: "select worker, tenant_id, job_id, attempt, token, failures, lost, snoozes, max_attempts, cancel_requested, deadline_ms, \
           definition_key from windlass.lost_jobs()",
    types: &[],
};

pub(crate) async fn lost_jobs(db: &Database) -> Result<Vec<LostJob>> {
    let rows = db.query(&LOST, &[]).await?;
    Ok(rows.iter().map(read_lost).collect())
}

pub(crate) fn read_lost(row: &tokio_postgres::Row) -> LostJob {
    LostJob {
        worker: row.get(0),
        fence: Fence { tenant: row.get(1), job: row.get(2), attempt: row.get(3), token: row.get(4) },
        budget: Budget {
            attempt: row.get(3),
            failures: row.get(5),
            lost: row.get(6),
            snoozes: i32::from(row.get::<_, i16>(7)),
            max_attempts: row.get(8),
            max_lost: 0,
            max_snoozes: 0,
            cancel_requested: row.get(9),
            remaining: row.get::<_, Option<i64>>(10).map(millis),
        },
        definition_key: row.get(11),
    }
}

static REAP: Statement = Statement {
    text: "select settled, overruled from windlass.reap($1, $2, $3, $4, $5, $6)",
    types: &[
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::JSONB_ARRAY,
    ],
};

/// Applies decisions about lost jobs, sorted by (tenant, job), if their workers are still overdue.
pub(crate) async fn reap(
    db: &Database,
    workers: &[i32],
    fences: &[Fence],
    details: &[String],
) -> Result<Settled> {
    let columns = FenceColumns::of(fences.iter());
    let details: Vec<_> = details.iter().map(|detail| JsonText(detail)).collect();
    let row = db
        .query_one(
            &REAP,
            &[&workers, &columns.tenants, &columns.jobs, &columns.attempts, &columns.tokens, &details],
        )
        .await?;
    Ok(read_settled(&row))
}

static EXPIRE: Statement =
    Statement { text: "select processed, has_more from windlass.expire()", types: &[] };
static UNBLOCK: Statement =
    Statement { text: "select decided, has_more from windlass.unblock_all()", types: &[] };
static FOLD: Statement =
    Statement { text: "select moved, has_more from windlass.fold_tallies()", types: &[] };
static SUMMARIZE: Statement = Statement { text: "select windlass.summarize_times()", types: &[] };
static PRUNE: Statement = Statement { text: "select moved, has_more from windlass.prune()", types: &[] };
static PRUNE_EVENTS: Statement =
    Statement { text: "select moved, has_more from windlass.prune_events()", types: &[] };
static RETIRE_LANES: Statement = Statement { text: "select windlass.retire_lanes()", types: &[] };
static PARTITIONS: Statement =
    Statement { text: "select made, dropped, is_unfinished from windlass.maintain_partitions()", types: &[] };

/// Returns how many instants were processed, and whether there are more.
pub(crate) async fn expire(db: &Database) -> Result<(i32, bool)> {
    round(db, &EXPIRE).await
}

/// Returns how many dependencies were decided, and whether there are new ones left.
pub(crate) async fn unblock_all(db: &Database) -> Result<(i32, bool)> {
    round(db, &UNBLOCK).await
}

/// Returns how many differences were added, and whether there may be more.
pub(crate) async fn fold_tallies(db: &Database) -> Result<(i32, bool)> {
    round(db, &FOLD).await
}

pub(crate) async fn summarize_times(db: &Database) -> Result<i32> {
    Ok(db.query_one(&SUMMARIZE, &[]).await?.get(0))
}

/// Returns how many jobs were processed, and whether there may be more.
pub(crate) async fn prune(db: &Database) -> Result<(i32, bool)> {
    round(db, &PRUNE).await
}

/// Returns how many events were deleted, and whether there may be more.
pub(crate) async fn prune_events(db: &Database) -> Result<(i32, bool)> {
    round(db, &PRUNE_EVENTS).await
}

/// Runs a duty with its usual batch. Returns how much it did, and whether there may be more.
async fn round(db: &Database, duty: &'static Statement) -> Result<(i32, bool)> {
    let row = db.query_one(duty, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Returns how many lanes were retired or deleted.
pub(crate) async fn retire_lanes(db: &Database) -> Result<i32> {
    Ok(db.query_one(&RETIRE_LANES, &[]).await?.get(0))
}

static RETIRE: Statement = Statement { text: "select gone, wait_ms from windlass.retire()", types: &[] };

/// Does one step of replacing a partition. Returns how many jobs it deleted, and when to call again, if soon.
pub(crate) async fn retire(db: &Database) -> Result<(i64, Option<Duration>)> {
    let row = db.query_one(&RETIRE, &[]).await?;
    let wait = row.get::<_, Option<i32>>(1).map(|wait| Duration::from_millis(wait.unsigned_abs().into()));
    Ok((row.get(0), wait))
}

/// Returns how many were created or dropped, and whether there is a further step to do soon.
pub(crate) async fn maintain_partitions(db: &Database) -> Result<(i32, bool)> {
    let row = db.query_one(&PARTITIONS, &[]).await?;
    Ok((row.get::<_, i32>(0) + row.get::<_, i32>(1), row.get(2)))
}
