//! Reading jobs. The filter determines the leading table: the one that has the wanted jobs in the wanted order.

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::bounded::{PAGE_BYTES, SLICE};
use super::database::{Database, Rows, Session, Statement};
use super::page::{Picked, picked};
use super::param::read_texts;
use crate::error::{Error, Result};
use crate::model::filter::Filter;
use crate::model::job::state::State;
use crate::model::record::{Counts, Job};
use crate::telemetry;
use crate::text::redact::Redaction;

pub(crate) const STATEMENTS: &[&Statement] = &[
    &SCOPE,
    &PICK_NEWEST,
    &PICK_TAGGED,
    &PICK_QUEUED,
    &PICK_RUNNING,
    &PICK_DEFERRED,
    &PICK_BLOCKED,
    &PICK_FINISHED,
    &PICK_HELD,
    &READ,
    &READ_ONE,
    &COUNT,
    &COUNT_ALL,
];

/// Returns the ids of one page, and the start of the next one if this one is full.
pub(crate) async fn ids(db: &Database, filter: &Filter) -> Result<(Vec<Uuid>, Option<Uuid>)> {
    let session = begin(db, Some(filter.tenant)).await?;
    let picked = ids_in(&session, filter).await?;
    session.commit().await?;
    Ok(picked)
}

pub(crate) async fn ids_in(session: &Session, filter: &Filter) -> Result<(Vec<Uuid>, Option<Uuid>)> {
    pick(session, filter).await.map(|picked| (picked.ids, picked.next))
}

static READ: Statement =
    Statement { text: include_str!("sql/job/read.sql"), types: &[Type::UUID, Type::UUID_ARRAY] };
static READ_ONE: Statement =
    Statement { text: include_str!("sql/job/read_one.sql"), types: &[Type::UUID, Type::UUID] };

/// Returns the jobs with these ids, in this order, without those that do not exist.
pub(crate) async fn jobs(db: &Database, tenant: Uuid, ids: &[Uuid]) -> Result<Vec<Job>> {
    let session = begin(db, Some(tenant)).await?;
    let jobs = jobs_in(&session, tenant, ids).await?;
    session.commit().await?;
    Ok(jobs)
}

pub(crate) async fn jobs_in(session: &Session, tenant: Uuid, ids: &[Uuid]) -> Result<Vec<Job>> {
    Ok(read_jobs(session, tenant, ids, usize::MAX).await?.0)
}

/// Returns the first of these jobs, as many as fit on a page; and the position of the last that was read, if not all
/// were.
pub(super) async fn jobs_up_to(
    session: &Session,
    tenant: Uuid,
    ids: &[Uuid],
) -> Result<(Vec<Job>, Option<usize>)> {
    let (mut jobs, mut bytes, mut at) = (Vec::new(), 0, 0);
    for slice in ids.chunks(SLICE) {
        let (read, size, last) = read_jobs(session, tenant, slice, PAGE_BYTES.saturating_sub(bytes)).await?;
        jobs.extend(read);
        bytes += size;
        at += slice.len();
        if let Some(last) = last {
            return Ok((jobs, Some(at - slice.len() + last)));
        }
        if bytes >= PAGE_BYTES && at < ids.len() {
            return Ok((jobs, Some(at - 1)));
        }
    }
    Ok((jobs, None))
}

/// Returns jobs up to this size and at most one more, their size, and the position of the last one if not all were
/// read.
async fn read_jobs(
    session: &Session,
    tenant: Uuid,
    ids: &[Uuid],
    most: usize,
) -> Result<(Vec<Job>, usize, Option<usize>)> {
    let Rows { rows, is_cut } = if let [only] = ids {
        session.query_up_to(most, &READ_ONE, &[&tenant, only]).await?
    } else {
        // The same plan works for any ids, and planning takes longer than reading fifty jobs: 5 of 9 ms.
        session.batch("set local plan_cache_mode = force_generic_plan").await?;
        let rows = session.query_up_to(most, &READ, &[&tenant, &ids]).await?;
        session.batch("set local plan_cache_mode = force_custom_plan").await?;
        rows
    };
    let bytes = rows.iter().map(Row::raw_size_bytes).sum();
    let last = rows.last().filter(|_| is_cut).map(|row| row.get::<_, Uuid>("id"));
    let last = last.and_then(|last| ids.iter().position(|id| *id == last));
    if let [only] = rows.as_slice() {
        return Ok((vec![read_job(only)?], bytes, last));
    }
    // One damaged row must not hide the others of its page.
    let readable = rows.iter().filter_map(|row| read_job(row).inspect_err(telemetry::unreadable_row).ok());
    Ok((readable.collect(), bytes, last))
}

static COUNT: Statement = Statement { text: include_str!("sql/job/count.sql"), types: &[Type::UUID] };

pub(crate) async fn counts(db: &Database, tenant: Option<Uuid>) -> Result<Vec<Counts>> {
    let session = begin(db, tenant).await?;
    let counts = counts_in(&session, tenant).await?;
    session.commit().await?;
    Ok(counts)
}

pub(crate) async fn counts_in(session: &Session, tenant: Option<Uuid>) -> Result<Vec<Counts>> {
    match tenant {
        Some(_) => Ok(session.query(&COUNT, &[&tenant]).await?.iter().map(read_counts).collect()),
        None => all_counts(session).await,
    }
}

/// Runs a statement that needs every row of small tables: with sequential scans and hash joins, which are disabled
/// again for the next statements.
pub(super) async fn query_whole(session: &Session, statement: &Statement) -> Result<Vec<Row>> {
    session.batch("set local enable_hashjoin = on; set local enable_seqscan = on").await?;
    let rows = session.query(statement, &[]).await?;
    session.batch("set local enable_hashjoin = off; set local enable_seqscan = off").await?;
    Ok(rows)
}

static COUNT_ALL: Statement = Statement { text: include_str!("sql/job/count_all.sql"), types: &[] };

async fn all_counts(session: &Session) -> Result<Vec<Counts>> {
    let mut counts: Vec<Counts> = query_whole(session, &COUNT_ALL).await?.iter().map(read_counts).collect();
    counts.sort_by(|one, other| one.part().cmp(&other.part()));
    counts.dedup_by(|next, kept| {
        let is_same = next.part() == kept.part();
        if is_same {
            kept.add(next);
        }
        is_same
    });
    Ok(counts)
}

static SCOPE: Statement =
    Statement { text: include_str!("sql/tenant/scope.sql"), types: &[Type::TEXT, Type::TEXT] };

/// Starts a read-only transaction with one snapshot, for one tenant or, if the role may, for all.
pub(crate) async fn begin(db: &Database, tenant: Option<Uuid>) -> Result<Session> {
    let mut session = db.session().await?;
    session.begin_reading().await?;
    scope(&session, tenant, "off").await?;
    Ok(session)
}

async fn scope(session: &Session, tenant: Option<Uuid>, bitmaps: &str) -> Result<()> {
    let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
    session.query(&SCOPE, &[&tenant, &bitmaps]).await?;
    Ok(())
}

/// The parameters of every pick: tenant, id bounds, limit, definition, queue, creation bounds, source. Then its own.
macro_rules! pick_types {
    ($($own:ident),*) => {
        &[
            Type::UUID, Type::UUID, Type::UUID, Type::INT8, Type::TEXT, Type::TEXT,
            Type::TIMESTAMPTZ, Type::TIMESTAMPTZ, Type::INT2 $(, Type::$own)*
        ]
    };
}

static PICK_NEWEST: Statement = Statement {
    text: include_str!("sql/job/pick_newest.sql"),
    types: pick_types![INT2, TEXT, TEXT, TEXT, UUID_ARRAY, BOOL],
};
static PICK_TAGGED: Statement = Statement {
    text: include_str!("sql/job/pick_tagged.sql"),
    types: pick_types![INT2, TEXT, TEXT, TEXT, UUID_ARRAY, BOOL, TEXT],
};
static PICK_QUEUED: Statement =
    Statement { text: include_str!("sql/job/pick_queued.sql"), types: pick_types![INT8] };
static PICK_RUNNING: Statement =
    Statement { text: include_str!("sql/job/pick_running.sql"), types: pick_types![INT8, BOOL] };
static PICK_DEFERRED: Statement =
    Statement { text: include_str!("sql/job/pick_deferred.sql"), types: pick_types![] };
static PICK_BLOCKED: Statement =
    Statement { text: include_str!("sql/job/pick_blocked.sql"), types: pick_types![] };
static PICK_FINISHED: Statement =
    Statement { text: include_str!("sql/job/pick_finished.sql"), types: pick_types![INT2] };

static PICK_HELD: Statement = Statement {
    text: include_str!("sql/job/pick_held.sql"),
    types: &[Type::UUID, Type::UUID, Type::UUID, Type::INT8, Type::TEXT, Type::INT8, Type::BOOL],
};

pub(super) async fn pick(session: &Session, filter: &Filter) -> Result<Picked> {
    if filter.is_search() {
        // Without its text the filter would match far more than intended.
        return Err(Error::refused("mentions", "requires a search"));
    }
    let (from, below) = (filter.lowest_id(), filter.highest_id());
    let limit = i64::from(filter.limit) + i64::from(filter.offset);
    let below_place = filter.highest_place();
    if let Some(worker) = &filter.held_by {
        let params: [&(dyn ToSql + Sync); 7] =
            [&filter.tenant, &below, &from, &limit, worker, &below_place, &filter.without_cancel_requested];
        return Ok(picked(&session.query(&PICK_HELD, &params).await?, filter));
    }
    let source = filter.source.map(crate::model::new_job::Source::code);
    let state = filter.state.map(State::code);
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![
        &filter.tenant,
        &below,
        &from,
        &limit,
        &filter.definition_key,
        &filter.queue,
        &filter.created_after,
        &filter.created_before,
        &source,
    ];
    let by_body: [&(dyn ToSql + Sync); 6] = [
        &state,
        &filter.subject_type,
        &filter.subject_id,
        &filter.correlation_id,
        &filter.ids,
        &filter.without_cancel_requested,
    ];

    // The narrowest condition leads. A subject, a correlation id, a tag or a list of ids is narrower than any state.
    let is_narrow = filter.subject_id.is_some() || filter.correlation_id.is_some() || filter.ids.is_some();
    let statement = match filter.state {
        _ if filter.tag.is_some() => {
            params.extend(by_body);
            params.push(&filter.tag);
            scope(session, Some(filter.tenant), "on").await?;
            &PICK_TAGGED
        }
        _ if is_narrow => {
            params.extend(by_body);
            &PICK_NEWEST
        }
        None => {
            params.extend(by_body);
            &PICK_NEWEST
        }
        Some(State::Queued) => {
            params.push(&below_place);
            &PICK_QUEUED
        }
        Some(State::Running) => {
            params.push(&below_place);
            params.push(&filter.without_cancel_requested);
            &PICK_RUNNING
        }
        Some(State::Scheduled) => &PICK_DEFERRED,
        Some(State::Blocked) => &PICK_BLOCKED,
        Some(State::Succeeded | State::Failed | State::DeadLetter | State::Canceled) => {
            params.push(&state);
            &PICK_FINISHED
        }
    };
    let rows = session.query(statement, &params).await?;
    Ok(picked(&rows, filter))
}

fn read_job(row: &Row) -> Result<Job> {
    Ok(Job {
        id: row.get("id"),
        tenant_id: row.get("tenant_id"),
        definition_id: row.get("definition_id"),
        definition_key: row.get("definition_key"),
        source: row.get("source"),
        source_ref: row.get("source_ref"),
        status: read_state(row, row.get("id"))?,
        priority: row.get("priority"),
        payload: row.get("payload"),
        dedupe_key: row.get("dedupe_key"),
        correlation_id: row.get("correlation_id"),
        scheduled_for: row.get("scheduled_for"),
        queued_at: row.get("queued_at"),
        started_at: row.get("started_at"),
        last_started_at: row.get("last_started_at"),
        finished_at: row.get("finished_at"),
        attempt_count: row.get("attempt_count"),
        max_attempts: row.get("max_attempts"),
        lease_expires_at: row.get("lease_expires_at"),
        claimed_by_worker: row.get("claimed_by_worker"),
        last_error: row.get("last_error"),
        created_by: row.get("created_by"),
        queue: row.get("queue"),
        result: row.get("result"),
        artifact: row.get("artifact"),
        progress_percent: row.get("progress_percent"),
        progress_message: row.get("progress_message"),
        subject_type: row.get("subject_type"),
        subject_id: row.get("subject_id"),
        tags: read_texts(row, "tags"),
        trace: row.get("trace"),
        parent_id: row.get("parent_id"),
        ordering_key: row.get("ordering_key"),
        deadline: row.get::<_, Option<Timestamp>>("deadline"),
        cancel_requested_at: row.get("cancel_requested_at"),
        reason: row.get("reason"),
        redaction: read_redaction(row.get("redaction")),
    })
}

/// A job is in exactly one table. A job in none of them, or in a state of another release, has no state that can be
/// shown.
pub(super) fn read_state(row: &Row, job: Uuid) -> Result<State> {
    let status: Option<&str> = row.get("status");
    status.and_then(|status| status.parse().ok()).ok_or_else(|| Error::UnexpectedResult {
        message: format!("job {job} has the unknown state {status:?}; it was written by a newer release"),
    })
}

/// Returns the redaction of a definition; `None` if it cannot be read, and then nothing may be shown.
pub(super) fn read_redaction(rules: Option<Value>) -> Option<Redaction> {
    rules.map_or_else(|| Some(Redaction::default()), |rules| serde_json::from_value(rules).ok())
}

/// By position: for ten thousand tenants, finding each column by its name would take longer than reading it.
fn read_counts(row: &Row) -> Counts {
    Counts {
        tenant_id: row.get(0),
        queue: row.get(1),
        definition_id: row.get(2),
        definition_key: row.get(3),
        queued: row.get(4),
        running: row.get(5),
        scheduled: row.get(6),
        blocked: row.get(7),
        succeeded: row.get(8),
        failed: row.get(9),
        dead_letter: row.get(10),
        canceled: row.get(11),
        purged: row.get(12),
    }
}
