//! Reads the rows of the database in one snapshot.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};
use uuid::Uuid;
use windlass::job::{AttemptOutcome, State};
use windlass::schedule::Schedule;

use super::evidence::{AttemptRow, EventRow, Evidence, FireRow, JobRow};
use crate::Result;
use crate::soak::ledger;

/// An instant that is due for less time may not be decided yet.
const UNDECIDED: SignedDuration = SignedDuration::from_secs(30);

pub(crate) async fn read(
    client: &mut Client,
    ledgers: &Path,
    schedules: &[(Uuid, Timestamp)],
) -> Result<Evidence> {
    let mut evidence = Evidence { entries: ledger::read_all(ledgers)?, ..Evidence::default() };
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let rows = tx.query(include_str!("read/jobs.sql"), &[]).await?;
    evidence.jobs = rows.iter().map(job).collect();
    let query = "select job_id, attempt, outcome, job_status, started_at from windlass.history";
    evidence.attempts = tx.query(query, &[]).await?.iter().map(attempt).collect::<Result<_>>()?;
    for (place, query) in [
        ("queued", "select unnest(ids) from windlass.line"),
        (
            "running",
            "select ids[n] from windlass.live, generate_subscripts(ids, 1) n where (ended >> (n - 1)) & 1 = 0",
        ),
        ("scheduled", "select job_id from windlass.deferred"),
        ("blocked", "select job_id from windlass.blocked"),
    ] {
        evidence.unfinished.extend(tx.query(query, &[]).await?.iter().map(|row| (row.get(0), place)));
    }
    let effects = tx.query("select job, attempt from soak.effect", &[]).await?;
    evidence.effects = effects.iter().map(|row| (row.get(0), row.get(1))).collect();
    evidence.sent = numbers(&tx, "select intent from soak.sent").await?;
    evidence.emitted = numbers(&tx, "select event from soak.emitted").await?;
    evidence.events = events(&tx).await?;
    let fires =
        tx.query("select trigger_id, due_at, job_id from windlass.fire where kind = 'schedule'", &[]).await?;
    evidence.fires =
        fires.iter().map(|row| FireRow { trigger: row.get(0), due: row.get(1), job: row.get(2) }).collect();
    evidence.due = due(&tx, schedules).await?;
    let counters = tx.query(include_str!("read/counters.sql"), &[]).await?;
    evidence.counters = counters.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let leftovers = tx.query(include_str!("read/leftovers.sql"), &[]).await?;
    evidence.leftovers = leftovers.iter().map(|row| row.get(0)).collect();
    evidence.audited = audited(&tx).await?;
    tx.commit().await?;
    Ok(evidence)
}

fn job(row: &Row) -> JobRow {
    JobRow {
        id: row.get(0),
        tenant: row.get(1),
        definition: row.get(2),
        n: row.get::<_, i64>(3).unsigned_abs(),
        children: row.get::<_, i64>(4).unsigned_abs(),
        parent: row.get(5),
        max_attempts: u32::from(row.get::<_, i16>(6).unsigned_abs()),
        dedupe_key: row.get(7),
        scheduled_for: row.get(8),
    }
}

fn attempt(row: &Row) -> Result<AttemptRow> {
    let outcome = |code| AttemptOutcome::from_code(code).ok_or("an unknown outcome");
    let status = |code| State::from_code(code).filter(|state| state.is_terminal()).ok_or("an unknown status");
    Ok(AttemptRow {
        job: row.get(0),
        attempt: row.get(1),
        outcome: row.get::<_, Option<i16>>(2).map(outcome).transpose()?,
        status: row.get::<_, Option<i16>>(3).map(status).transpose()?,
        started_at: row.get(4),
    })
}

async fn numbers(tx: &Transaction<'_>, query: &str) -> Result<HashSet<u64>> {
    Ok(tx.query(query, &[]).await?.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()).collect())
}

async fn events(tx: &Transaction<'_>) -> Result<Vec<EventRow>> {
    let query = "select (e.payload ->> 'n')::bigint,
           coalesce(array(select d.job_id from windlass.event_dispatch d
             where d.tenant_id = e.tenant_id and d.event_id = e.id and d.outcome = 'fired'), '{}'),
           exists (select from windlass.event_pending p where p.tenant_id = e.tenant_id and p.event_id = e.id)
      from windlass.event e where e.payload ? 'n'";
    let rows = tx.query(query, &[]).await?;
    let event = |row: &Row| EventRow {
        n: row.get::<_, i64>(0).unsigned_abs(),
        fired: row.get(1),
        is_pending: row.get(2),
    };
    Ok(rows.iter().map(event).collect())
}

/// The instants of a minute, from the first one of each schedule: a pure function.
async fn due(tx: &Transaction<'_>, schedules: &[(Uuid, Timestamp)]) -> Result<Vec<(Uuid, Timestamp)>> {
    let now: Timestamp = tx.query_one("select clock_timestamp()", &[]).await?.get(0);
    let every_minute = Schedule::new("* * * * *", "UTC")?;
    let of = |&(trigger, first): &(Uuid, Timestamp)| {
        let instants = every_minute.due_in(first - SignedDuration::from_secs(1), now - UNDECIDED);
        instants.map(move |due| (trigger, due)).collect::<Vec<_>>()
    };
    Ok(schedules.iter().flat_map(of).collect())
}

async fn audited(tx: &Transaction<'_>) -> Result<HashMap<(String, Uuid), u64>> {
    let query = "select action, target, count(*) from windlass.audit
      where action in ('job.cancel', 'job.retry') and outcome = 'done' group by action, target";
    let rows = tx.query(query, &[]).await?;
    let mut counts = HashMap::new();
    for row in rows {
        let (action, target): (String, String) = (row.get(0), row.get(1));
        counts.insert((action, target.parse()?), row.get::<_, i64>(2).unsigned_abs());
    }
    Ok(counts)
}
