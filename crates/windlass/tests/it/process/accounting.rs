//! The accounting at the end of every test. Reads the tables and the ledgers, and compares them.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Client;
use uuid::Uuid;
use windlass_testing::eventually;

use super::fleet::Fleet;
use super::ledger::Entry;

/// Figures that are reported, not required.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) jobs: usize,
    pub(crate) attempts: usize,
    pub(crate) lost: usize,
    pub(crate) released: usize,
    /// Pairs of runs of one job that overlapped.
    pub(crate) overlaps: usize,
}

/// Waits until every job has ended, then checks invariants 2, 3, 9, 10, 13 to 16, 18 and 48. `acked` are the jobs whose enqueue
/// was acknowledged; `sent` those and the ones whose response was lost.
pub(crate) async fn settle_accounts(client: &Client, fleet: &Fleet, acked: &[Uuid], sent: &[Uuid]) -> Books {
    eventually("every job has ended", async || {
        number(
            client,
            "select (select count(*) from windlass.line) + (select count(*) from windlass.running) + (select count(*) from windlass.deferred)
                             + (select count(*) from windlass.blocked)",
        )
        .await
            == 0
    })
    .await;
    every_accepted_job_exists(client, acked, sent).await;
    every_job_ended_once(client).await;
    every_attempt_ended_once(client).await;
    nothing_is_left_behind(client).await;
    counters_equal_counts(client).await;
    effects_equal_successes(client).await;
    let entries = fleet.entries();
    every_start_is_an_attempt(client, &entries).await;
    Books {
        jobs: usize::try_from(number(client, "select count(*) from windlass.job").await).unwrap(),
        attempts: usize::try_from(
            number(client, "select count(*) from windlass.history where attempt > 0").await,
        )
        .unwrap(),
        lost: outcomes(client, 5).await,
        released: outcomes(client, 7).await,
        overlaps: overlaps(fleet, &entries),
    }
}

/// The table of the application's own rows, which `effect` jobs write.
pub(crate) async fn make_effect_table(client: &Client) {
    client
        .batch_execute(
            "create table effect (job uuid not null, attempt integer not null, primary key (job, attempt))",
        )
        .await
        .unwrap();
}

async fn every_accepted_job_exists(client: &Client, acked: &[Uuid], sent: &[Uuid]) {
    let lost = "select a.id::text from unnest($1::uuid[]) a (id) where not exists (select from windlass.job b where b.id = a.id)";
    assert_eq!(texts(client, lost, acked).await, Vec::<String>::new(), "acknowledged but not there");
    let phantom = "select b.id::text from windlass.job b where b.id <> all ($1::uuid[])";
    assert_eq!(texts(client, phantom, sent).await, Vec::<String>::new(), "there but never sent");
}

/// In exactly one place, with exactly one final status, on its last history row.
async fn every_job_ended_once(client: &Client) {
    none(client, "jobs that are not in exactly one place", "
        select b.id::text || ' ' || coalesce(windlass.state_of(b.tenant_id, b.id), 'nowhere') from windlass.job b
         where (select count(*) from windlass.history h where h.job_id = b.id and h.job_status is not null) <> 1").await;
    none(
        client,
        "jobs whose final status is not on their last attempt",
        "
        select h.job_id::text from windlass.history h where h.job_status is not null and h.attempt <> 0
           and h.attempt <> (select max(l.attempt) from windlass.history l where l.job_id = h.job_id)",
    )
    .await;
    none(client, "jobs in the history that were not enqueued", "
        select h.job_id::text from windlass.history h where not exists (select from windlass.job b where b.id = h.job_id)").await;
}

/// Attempts are numbered without a gap, so that each claim has its outcome, and stay within both limits.
async fn every_attempt_ended_once(client: &Client) {
    none(client, "jobs with a gap in their attempts", "
        select h.job_id::text || ' ' || string_agg(h.attempt::text, ',' order by h.attempt) from windlass.history h where h.attempt > 0
         group by h.job_id having count(*) <> max(h.attempt) or min(h.attempt) <> 1").await;
    none(client, "jobs beyond their budget", "
        select b.id::text from windlass.job b join windlass.history h on h.job_id = b.id
         group by b.id, b.max_attempts
        having count(*) filter (where h.outcome in (2, 3, 5)) > b.max_attempts or count(*) filter (where h.outcome = 5) > 3").await;
    none(
        client,
        "attempts that end before they start",
        "
        select h.job_id::text from windlass.history h where h.finished_at < h.started_at",
    )
    .await;
}

async fn nothing_is_left_behind(client: &Client) {
    none(
        client,
        "dedupe slots still held",
        "
        select d.dedupe_key from windlass.dedupe d where d.released_at_end",
    )
    .await;
    none(client, "cancel requests still open", "select c.job_id::text from windlass.cancel_request c").await;
    none(client, "dependencies still open", "select d.job_id::text from windlass.dependency d").await;
}

async fn counters_equal_counts(client: &Client) {
    none(client, "counters that differ from the rows", "
        with counted as (
          select coalesce(sum(queued), 0) as queued, coalesce(sum(running), 0) as running, coalesce(sum(scheduled), 0) as scheduled,
                 coalesce(sum(blocked), 0) as blocked, coalesce(sum(succeeded), 0) as succeeded, coalesce(sum(failed), 0) as failed,
                 coalesce(sum(dead_letter), 0) as dead_letter, coalesce(sum(canceled), 0) as canceled
            from (select * from windlass.total union all select * from windlass.tally) c),
        found as (
          select count(*) filter (where status = 'queued') as queued, count(*) filter (where status = 'running') as running,
                 count(*) filter (where status = 'scheduled') as scheduled, count(*) filter (where status = 'blocked') as blocked,
                 count(*) filter (where status = 'succeeded') as succeeded, count(*) filter (where status = 'failed') as failed,
                 count(*) filter (where status = 'dead_letter') as dead_letter, count(*) filter (where status = 'canceled') as canceled
            from windlass.jobs)
        select c::text || ' is not ' || f::text from counted c, found f where c::text <> f::text").await;
}

/// A row of the application exists if and only if its attempt succeeded.
async fn effects_equal_successes(client: &Client) {
    if number(client, "select count(*) from pg_class where relname = 'effect' and relkind = 'r'").await == 0 {
        return;
    }
    none(client, "effects without their success, or successes without their effect", "
        with successes as (
          select h.job_id, h.attempt from windlass.history h
            join windlass.lane n on n.id = h.lane join windlass.job_definitions d on d.id = n.definition_id
           where d.key = 'effect' and h.outcome = 1)
        select coalesce(e.job, s.job_id)::text from effect e
          full join successes s on s.job_id = e.job and s.attempt = e.attempt where e.job is null or s.job_id is null").await;
}

async fn every_start_is_an_attempt(client: &Client, entries: &[Entry]) {
    let rows =
        client.query("select job_id, attempt from windlass.history where attempt > 0", &[]).await.unwrap();
    let known: HashSet<(Uuid, i32)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut started = HashSet::new();
    for entry in entries.iter().filter(|entry| entry.is_start) {
        let run = (entry.job, entry.attempt);
        assert!(started.insert(run), "{run:?} was started twice");
        assert!(known.contains(&run), "{run:?} was started, and is not in the history");
    }
}

/// A run lasts from its start to its end, or to its process's death. A job's runs may touch, not overlap; a test that allows an
/// overlap gives the reason.
fn overlaps(fleet: &Fleet, entries: &[Entry]) -> usize {
    let mut runs: HashMap<Uuid, Vec<(u64, u64)>> = HashMap::new();
    for start in entries.iter().filter(|entry| entry.is_start) {
        let end = entries
            .iter()
            .find(|end| {
                !end.is_start && (end.job, end.attempt, end.pid) == (start.job, start.attempt, start.pid)
            })
            .map(|end| end.at_ns)
            .or_else(|| fleet.death_of(start.pid))
            .unwrap_or_else(|| panic!("the run of {} has no end and its process lives", start.job));
        runs.entry(start.job).or_default().push((start.at_ns, end));
    }
    runs.values_mut()
        .map(|runs| {
            runs.sort_unstable();
            runs.windows(2).filter(|pair| pair[1].0 < pair[0].1).count()
        })
        .sum()
}

async fn none(client: &Client, what: &str, query: &str) {
    let rows = client.query(query, &[]).await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(found.is_empty(), "{what}: {} of them, {:?}", found.len(), &found[..found.len().min(5)]);
}

async fn texts(client: &Client, query: &str, ids: &[Uuid]) -> Vec<String> {
    client.query(query, &[&ids]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn outcomes(client: &Client, outcome: i16) -> usize {
    let row = client.query_one("select count(*) from windlass.history where outcome = $1", &[&outcome]).await;
    usize::try_from(row.unwrap().get::<_, i64>(0)).unwrap()
}

pub(crate) async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
}
