//! Jobs of pull workers in the database. The SQL functions are named `pull_…`, after the function here that calls each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::bounded::PAGE_BYTES;
use super::database::{Database, Rows, Session, Statement};
use super::job::FenceColumns;
use super::keeper::LostJob;
use super::param::{JsonOut, JsonText};
use super::settle::{Settled, read_settled};
use super::worker::{self, ActiveLane, Claimant, LOOK_LIMIT, Wanted, WorkerRegistration, millis};
use crate::error::Result;
use crate::model::job::claimed::{Claimed, Fence};
use crate::model::job::settle::Budget;

pub(crate) const STATEMENTS: &[&Statement] = &[
    &REGISTER, &TOUCH, &STOP, &LANES, &CLAIM, &UNCLAIM, &HEARTBEAT, &HELD, &SETTLE, &HAND_OVER, &LOST, &REAP,
];

/// How long a process counts as present after its last request, in seconds, in addition to the leases that it holds.
pub(crate) const PRESENT: i32 = 60;

static REGISTER: Statement = Statement {
    text: "select id, is_draining from windlass.pull_register($1, $2, $3, $4, $5, $6, $7)",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT4, Type::JSONB],
};

/// Registers the worker, or returns it to service. Returns its number and whether it was drained.
pub(crate) async fn register(db: &Database, me: &WorkerRegistration, version: &str) -> Result<(i32, bool)> {
    let queues = me.queues.clone().unwrap_or_default();
    let row = db
        .query_one(
            &REGISTER,
            &[
                &me.worker_id,
                &me.hostname,
                &version,
                &queues,
                &me.definition_keys,
                &me.lease_seconds,
                &JsonText(&me.metadata),
            ],
        )
        .await?;
    Ok((row.get(0), row.get(1)))
}

static TOUCH: Statement = Statement {
    text: "select worker, is_draining from windlass.pull_touch($1, $2)",
    types: &[Type::INT4_ARRAY, Type::INT4],
};

/// Marks these workers as present. Returns those that exist, and whether each was drained.
pub(crate) async fn touch(db: &Database, workers: &[i32], seconds: i32) -> Result<HashMap<i32, bool>> {
    let rows = db.query(&TOUCH, &[&workers, &seconds]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

static STOP: Statement = Statement { text: "select windlass.pull_stop($1)", types: &[Type::TEXT] };

/// Ends the service of a worker, unless it holds jobs. Returns whether it has ended.
pub(crate) async fn stop(db: &Database, worker_id: &str) -> Result<bool> {
    Ok(db.query_one(&STOP, &[&worker_id]).await?.get(0))
}

static LANES: Statement = Statement {
    text: "select lane, tenant_id, definition_key, queue, priority, weight, limits from windlass.active_lanes($1, null)",
    types: &[Type::TEXT_ARRAY],
};

/// A lane with work, and the data that decides which worker may get it.
#[derive(Debug, Clone)]
pub(crate) struct PullLane {
    pub(crate) id: i32,
    pub(crate) tenant: Uuid,
    pub(crate) definition_key: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i16,
    pub(crate) weight: u32,
    pub(crate) limits: Vec<i32>,
}

impl PullLane {
    pub(crate) fn as_active(&self) -> ActiveLane {
        ActiveLane {
            id: self.id,
            tenant: self.tenant,
            priority: self.priority,
            definition_key: self.definition_key.to_string(),
            weight: self.weight,
            limits: self.limits.clone(),
        }
    }
}

/// Returns the lanes with work of these definitions, or of all.
pub(crate) async fn active_lanes(session: &mut Session, keys: Option<&[String]>) -> Result<Vec<PullLane>> {
    let rows = session.query_within(LOOK_LIMIT, &LANES, &[&keys]).await?;
    let lanes = rows.iter().map(|row| PullLane {
        id: row.get(0),
        tenant: row.get(1),
        definition_key: row.get::<_, &str>(2).into(),
        queue: row.get::<_, &str>(3).into(),
        priority: row.get(4),
        weight: row.get::<_, i32>(5).unsigned_abs(),
        limits: row.get(6),
    });
    Ok(lanes.collect())
}

static CLAIM: Statement = Statement {
    text: "select * from windlass.pull_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    types: &[
        Type::INT4,
        Type::UUID,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4,
        Type::INT4,
    ],
};

/// The destination of each job of a claim: one entry per slot.
#[derive(Debug, Default)]
pub(crate) struct ClaimSlots {
    pub(crate) workers: Vec<i32>,
    pub(crate) lease_seconds: Vec<i32>,
    pub(crate) tokens: Vec<Uuid>,
}

/// One job claimed for one slot.
#[derive(Debug)]
pub(crate) struct Dealt {
    pub(crate) slot: usize,
    pub(crate) lane: i32,
    pub(crate) seq: i64,
    pub(crate) claimed: Claimed,
    pub(crate) lease_expires_at: Timestamp,
    pub(crate) times_out_at: Timestamp,
}

/// Claims jobs of approximately a page's bytes. Returns whether more were claimed than that: no worker has those until
/// they are released.
pub(crate) async fn claim(
    session: &Session,
    by: Claimant,
    wanted: &Wanted,
    slots: &ClaimSlots,
    keys: &HashMap<i32, Arc<str>>,
) -> Result<(Vec<Dealt>, bool)> {
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 10] = [
        &by.worker,
        &Uuid::new_v4(),
        &wanted.lanes,
        &wanted.after_seqs,
        &wanted.counts,
        &slots.workers,
        &slots.lease_seconds,
        &slots.tokens,
        &PRESENT,
        &by.epoch,
    ];
    let Rows { rows, is_cut } = session.query_up_to(PAGE_BYTES, &CLAIM, &params).await?;
    let dealt = rows.iter().filter_map(|row| {
        let lane: i32 = row.get(2);
        let slot = usize::try_from(row.get::<_, i32>(13) - 1).ok()?;
        let claimed = worker::claimed(row, keys.get(&lane)?, *slots.tokens.get(slot)?);
        let (lease_expires_at, times_out_at) = (row.get(14), row.get(15));
        Some(Dealt { slot, lane, seq: row.get(3), claimed, lease_expires_at, times_out_at })
    });
    Ok((dealt.collect(), is_cut))
}

static UNCLAIM: Statement = Statement {
    text: "select windlass.pull_unclaim($1, $2, $3)",
    types: &[Type::INT4, Type::UUID_ARRAY, Type::INT4],
};

/// Releases all jobs of a claim whose response was lost, and ends its epoch.
pub(crate) async fn unclaim(session: &Session, by: Claimant, tokens: &[Uuid]) -> Result<()> {
    session.query(&UNCLAIM, &[&by.worker, &tokens, &by.epoch]).await?;
    Ok(())
}

static HEARTBEAT: Statement = Statement {
    text: "select lease_expires_at, cancel_requested, lease_seconds \
           from windlass.pull_heartbeat($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    types: &[
        Type::UUID,
        Type::UUID,
        Type::INT4,
        Type::UUID,
        Type::INT4,
        Type::FLOAT4,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::INT4,
    ],
};

/// The result of a successful heartbeat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewed {
    pub(crate) lease_expires_at: Timestamp,
    pub(crate) cancel_requested: bool,
    pub(crate) lease_seconds: i32,
}

/// The report of a pull worker about a job, ready to be stored.
#[derive(Debug, Default)]
pub(crate) struct HeartbeatInput {
    pub(crate) lease_seconds: Option<i32>,
    pub(crate) percent: Option<f32>,
    pub(crate) message: Option<String>,
    pub(crate) log: Vec<String>,
}

/// Renews the lease of one job. Returns `None` if the fence is stale.
pub(crate) async fn heartbeat(
    db: &Database,
    fence: &Fence,
    input: &HeartbeatInput,
) -> Result<Option<Renewed>> {
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 9] = [
        &fence.tenant,
        &fence.job,
        &fence.attempt,
        &fence.token,
        &input.lease_seconds,
        &input.percent,
        &input.message,
        &input.log,
        &PRESENT,
    ];
    let rows = db.query(&HEARTBEAT, &params).await?;
    Ok(rows.first().map(|row| Renewed {
        lease_expires_at: row.get(0),
        cancel_requested: row.get(1),
        lease_seconds: row.get(2),
    }))
}

static HELD: Statement = Statement {
    text: "select definition_key, failures, lost, snoozes, max_attempts, cancel_requested, deadline_ms, ran_ms, payload \
           from windlass.pull_held($1, $2, $3, $4)",
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::UUID],
};

/// Returns the job of this fence, with the data that the decision about it needs, and how long it has run. `None` if
/// the fence is stale.
pub(crate) async fn held(db: &Database, fence: &Fence) -> Result<Option<(Claimed, Duration)>> {
    let rows = db.query(&HELD, &[&fence.tenant, &fence.job, &fence.attempt, &fence.token]).await?;
    Ok(rows.first().map(|row| {
        let ran = millis(row.get(7));
        let claimed = Claimed {
            fence: *fence,
            place: None,
            definition_key: row.get::<_, &str>(0).into(),
            payload: row.get::<_, JsonOut<'_>>(8).0.to_owned(),
            queued_ms: 0,
            budget: Budget {
                attempt: fence.attempt,
                failures: row.get(1),
                lost: row.get(2),
                snoozes: i32::from(row.get::<_, i16>(3)),
                max_attempts: row.get(4),
                max_lost: 0,
                max_snoozes: 0,
                cancel_requested: row.get(5),
                // As when it was claimed: the decision subtracts how long it has run.
                remaining: row.get::<_, Option<i64>>(6).map(|left| millis(left) + ran),
            },
            extra: Default::default(),
        };
        (claimed, ran)
    }))
}

static SETTLE: Statement = Statement {
    text: "select windlass.pull_settle($1, $2, $3, $4, $5)",
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::UUID, Type::JSONB],
};

/// Ends an attempt. Returns `settled`, `overruled` (by a cancel request) or `lost`.
pub(crate) async fn settle(db: &Database, fence: &Fence, detail: Option<&str>) -> Result<String> {
    let detail = detail.map(JsonText);
    let row =
        db.query_one(&SETTLE, &[&fence.tenant, &fence.job, &fence.attempt, &fence.token, &detail]).await?;
    Ok(row.get(0))
}

static HAND_OVER: Statement = Statement {
    text: "select windlass.hand_over($1, $2, $3, $4, $5, $6, $7)",
    types: &[Type::UUID, Type::UUID, Type::INT4, Type::UUID, Type::INT4, Type::INT4, Type::INT4],
};

/// Hands the attempt over to `worker`, with a separate lease. Returns false if it has already ended.
pub(crate) async fn hand_over(db: &Database, fence: &Fence, worker: i32, lease_seconds: i32) -> Result<bool> {
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&fence.tenant, &fence.job, &fence.attempt, &fence.token, &worker, &lease_seconds, &PRESENT];
    Ok(db.query_one(&HAND_OVER, &params).await?.get(0))
}

static LOST: Statement = Statement {
    text: "select worker, tenant_id, job_id, attempt, token, failures, lost, snoozes, max_attempts, cancel_requested, deadline_ms, \
           definition_key, is_timed_out from windlass.pull_lost_jobs()",
    types: &[],
};

/// Returns jobs whose own lease has expired, and whether they reached their timeout.
pub(crate) async fn lost_jobs(db: &Database) -> Result<Vec<(LostJob, bool)>> {
    let rows = db.query(&LOST, &[]).await?;
    Ok(rows.iter().map(|row| (super::keeper::read_lost(row), row.get(12))).collect())
}

static REAP: Statement = Statement {
    text: "select settled, overruled from windlass.pull_reap($1, $2, $3, $4, $5)",
    types: &[Type::UUID_ARRAY, Type::UUID_ARRAY, Type::INT4_ARRAY, Type::UUID_ARRAY, Type::JSONB_ARRAY],
};

/// Applies decisions about lost jobs, if their leases are still expired.
pub(crate) async fn reap(db: &Database, fences: &[Fence], details: &[String]) -> Result<Settled> {
    let columns = FenceColumns::of(fences.iter());
    let details: Vec<_> = details.iter().map(|detail| JsonText(detail)).collect();
    let row = db
        .query_one(&REAP, &[&columns.tenants, &columns.jobs, &columns.attempts, &columns.tokens, &details])
        .await?;
    Ok(read_settled(&row))
}
