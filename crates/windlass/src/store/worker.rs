//! A worker in the database: its registration, the lanes with work, claims and heartbeats.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::param::{JsonOut, JsonText};
use crate::error::Result;
use crate::model::job::claimed::{BlockPlace, Claimed, Fence};
use crate::model::job::settle::Budget;
use crate::model::record::CapableWorker;

pub(crate) const STATEMENTS: &[&Statement] =
    &[&REGISTER, &HEARTBEAT, &STOP, &DRAIN, &CAPABLE, &WAITING, &LANES, &WITH_WORK, &CLAIM, &UNCLAIM];

/// The registration of a worker.
#[derive(Debug, Clone)]
pub(crate) struct WorkerRegistration {
    pub(crate) worker_id: String,
    pub(crate) hostname: String,
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) definition_keys: Vec<String>,
    pub(crate) lease_seconds: i32,
    pub(crate) metadata: String,
}

static REGISTER: Statement = Statement {
    text: "select windlass.register_worker($1, $2, $3, $4, $5, $6, $7)",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT4, Type::JSONB],
};

pub(crate) async fn register(db: &Database, me: &WorkerRegistration) -> Result<i32> {
    let queues = me.queues.clone().unwrap_or_default();
    let row = db
        .query_one(
            &REGISTER,
            &[
                &me.worker_id,
                &me.hostname,
                &env!("CARGO_PKG_VERSION"),
                &queues,
                &me.definition_keys,
                &me.lease_seconds,
                &JsonText(&me.metadata),
            ],
        )
        .await?;
    Ok(row.get(0))
}

static HEARTBEAT: Statement = Statement {
    text: "select is_draining, canceled_tenants, canceled_jobs from windlass.heartbeat($1, $2)",
    types: &[Type::INT4, Type::INT4],
};

/// The result of a successful heartbeat.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerHeartbeat {
    pub(crate) is_draining: bool,
    pub(crate) canceled: Vec<(Uuid, Uuid)>,
}

/// Renews the lease. `None` means that the lease has expired and the worker must register again.
pub(crate) async fn heartbeat(db: &Database, worker: i32, running: i32) -> Result<Option<WorkerHeartbeat>> {
    let rows = db.query(&HEARTBEAT, &[&worker, &running]).await?;
    Ok(rows.first().map(|row| {
        let tenants: Option<Vec<Uuid>> = row.get(1);
        let jobs: Option<Vec<Uuid>> = row.get(2);
        let canceled = tenants.unwrap_or_default().into_iter().zip(jobs.unwrap_or_default()).collect();
        WorkerHeartbeat { is_draining: row.get(0), canceled }
    }))
}

static STOP: Statement = Statement { text: "select windlass.stop_worker($1)", types: &[Type::INT4] };

pub(crate) async fn stop(db: &Database, worker: i32) -> Result<()> {
    db.query(&STOP, &[&worker]).await?;
    Ok(())
}

static DRAIN: Statement =
    Statement { text: "select windlass.set_draining($1, $2)", types: &[Type::TEXT, Type::BOOL] };

/// Returns whether there is such a worker.
pub(crate) async fn set_draining(session: &Session, worker_id: &str, is_draining: bool) -> Result<bool> {
    Ok(session.query(&DRAIN, &[&worker_id, &is_draining]).await?[0].get(0))
}

static CAPABLE: Statement = Statement { text: include_str!("sql/worker/capable.sql"), types: &[Type::TEXT] };

pub(crate) async fn capable_workers(db: &Database, definition_key: &str) -> Result<Vec<CapableWorker>> {
    let rows = db.query(&CAPABLE, &[&definition_key]).await?;
    Ok(rows
        .iter()
        .map(|row| CapableWorker {
            worker_id: row.get(0),
            hostname: row.get(1),
            queues: row.get(2),
            is_draining: row.get(3),
        })
        .collect())
}

static WAITING: Statement =
    Statement { text: "select windlass.set_waiting($1, $2)", types: &[Type::INT4, Type::BOOL] };

/// Returns whether enqueues notify this worker from now on. They do not if its lease has expired.
pub(crate) async fn set_waiting(session: &Session, worker: i32, is_waiting: bool) -> Result<bool> {
    let rows = session.query(&WAITING, &[&worker, &is_waiting]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

static LANES: Statement = Statement {
    text: "select lane, tenant_id, definition_key, priority, weight, limits, (select windlass.has_several_tenants($1)) \
           from windlass.active_lanes($1, $2)",
    types: &[Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

/// How long the server may search for lanes with work.
pub(crate) const LOOK_LIMIT: Duration = Duration::from_secs(15);

/// A lane with queued jobs, and the data for fair scheduling.
#[derive(Debug)]
pub(crate) struct ActiveLane {
    pub(crate) id: i32,
    pub(crate) tenant: Uuid,
    pub(crate) priority: i16,
    pub(crate) definition_key: String,
    pub(crate) weight: u32,
    /// The numbers of the limits on running jobs that apply to it.
    pub(crate) limits: Vec<i32>,
}

/// Returns the lanes with work, and whether more than one tenant has lanes of these definitions, with or without work.
pub(crate) async fn active_lanes(
    session: &mut Session,
    keys: &[String],
    queues: Option<&[String]>,
) -> Result<(Vec<ActiveLane>, bool)> {
    let rows = session.query_within(LOOK_LIMIT, &LANES, &[&keys, &queues]).await?;
    let is_shared = rows.first().is_some_and(|row| row.get(6));
    let lanes = rows
        .iter()
        .map(|row| ActiveLane {
            id: row.get(0),
            tenant: row.get(1),
            priority: row.get(3),
            definition_key: row.get(2),
            weight: row.get::<_, i32>(4).unsigned_abs(),
            limits: row.get(5),
        })
        .collect();
    Ok((lanes, is_shared))
}

static WITH_WORK: Statement =
    Statement { text: "select windlass.lanes_with_work($1)", types: &[Type::INT4_ARRAY] };

/// Returns those of these lanes that have work.
pub(crate) async fn lanes_with_work(session: &Session, lanes: &[i32]) -> Result<Vec<i32>> {
    Ok(session.query(&WITH_WORK, &[&lanes]).await?.iter().map(|row| row.get(0)).collect())
}

static CLAIM: Statement = Statement {
    text: "select * from windlass.claim($1, $2, $3, $4, $5, $6)",
    types: &[Type::INT4, Type::UUID, Type::INT4_ARRAY, Type::INT8_ARRAY, Type::INT4_ARRAY, Type::INT4],
};

/// The claiming worker and its epoch. Releasing a lost claim ends its epoch, and a claim of an ended epoch takes
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimant {
    pub(crate) worker: i32,
    pub(crate) epoch: i32,
}

/// The request of a claim: lanes, the position to start from in each, and the number of jobs from each.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) lanes: Vec<i32>,
    pub(crate) after_seqs: Vec<i64>,
    pub(crate) counts: Vec<i32>,
}

pub(crate) async fn claim(
    session: &Session,
    by: Claimant,
    token: Uuid,
    wanted: &Wanted,
    keys: &HashMap<i32, Arc<str>>,
) -> Result<Vec<(i32, i64, Claimed)>> {
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&by.worker, &token, &wanted.lanes, &wanted.after_seqs, &wanted.counts, &by.epoch];
    let rows = session.query(&CLAIM, &params).await?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let lane: i32 = row.get(2);
            let place = BlockPlace { lane, block: row.get(13), position: row.get(14) };
            Some((lane, row.get(3), Claimed { place: Some(place), ..claimed(row, keys.get(&lane)?, token) }))
        })
        .collect())
}

static UNCLAIM: Statement = Statement {
    text: "select windlass.unclaim($1, $2, $3, $4)",
    types: &[Type::INT4, Type::UUID, Type::INT4_ARRAY, Type::INT4],
};

/// Releases all jobs of a claim whose response was lost, and ends its epoch: the next claim is sent in the epoch after
/// it. Returns whether all were released; jobs that another transaction has locked must be released later.
pub(crate) async fn unclaim(session: &Session, by: Claimant, token: Uuid, lanes: &[i32]) -> Result<bool> {
    let rows = session.query(&UNCLAIM, &[&by.worker, &token, &lanes, &by.epoch]).await?;
    Ok(rows[0].get::<_, i32>(0) == 0)
}

pub(crate) fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Reads a claimed job, without its place, from the first columns of every claim, in the order of `claim.sql`.
pub(super) fn claimed(row: &Row, definition_key: &Arc<str>, token: Uuid) -> Claimed {
    let attempt = row.get(4);
    Claimed {
        fence: Fence { tenant: row.get(0), job: row.get(1), attempt, token },
        place: None,
        definition_key: definition_key.clone(),
        payload: row.get::<_, JsonOut<'_>>(9).0.to_owned(),
        queued_ms: row.get(10),
        budget: Budget {
            attempt,
            failures: row.get(5),
            lost: row.get(6),
            snoozes: i32::from(row.get::<_, i16>(7)),
            max_attempts: row.get(8),
            max_lost: 0,
            max_snoozes: 0,
            cancel_requested: false,
            remaining: row.get::<_, Option<i64>>(11).map(millis),
        },
        extra: row
            .get::<_, Option<JsonOut<'_>>>(12)
            .and_then(|extra| serde_json::from_str(extra.0).ok())
            .unwrap_or_default(),
    }
}
