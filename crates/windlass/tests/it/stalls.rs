//! An application may leave any of its transactions open for as long as it likes. That blocks nothing of another tenant: every
//! duty of the keeper, and every operation of a worker, ends. Work that waits for the transaction itself is done once it has
//! ended.
//!
//! Nothing here is timed. A statement that waits for the open transaction would wait forever, and the limit names it.

mod dependencies;
mod limits;
mod routes;
mod waiting;
mod worker;
mod world;

use std::time::Duration;

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::Fence;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, eventually, some_of};

use self::world::{Workers, World};
use crate::support::{assert_counts_are_exact, count, keeper, status};

/// Statements that an application's role may execute and leave open, each with a name. A job in braces is one of the tenant's.
/// A normal run tries some of them.
const OPEN: &[(&str, &str)] = &[
    ("enqueue", "select windlass.enqueue('held')"),
    ("enqueue under the dedupe key of a running job", "select windlass.enqueue('held', dedupe_key => 'r')"),
    ("enqueue under a new dedupe key", "select windlass.enqueue('held', dedupe_key => 'new')"),
    (
        "enqueue under a dedupe key whose window is over",
        "select windlass.enqueue('held', dedupe_key => 'window')",
    ),
    ("enqueue under an idempotency key", "select windlass.enqueue('held', idempotency_key => 'i')"),
    ("enqueue under an ordering key", "select windlass.enqueue('held', ordering_key => 'o')"),
    (
        "enqueue behind finished and running jobs",
        "select windlass.enqueue('held', depends_on => array[{old}, {running}, {need}])",
    ),
    ("enqueue into a new lane", "select windlass.enqueue('held', queue => 'first', priority => 9)"),
    ("enqueue under a quota", "select windlass.enqueue('held')"),
    ("enqueue many", "select windlass.enqueue_many('held', array_fill('{}'::jsonb, array[100]))"),
    (
        "enqueue for later with a deadline",
        "select windlass.enqueue('held', delay => '1 hour', deadline => now() + interval '2 hours')",
    ),
    ("emit", "select windlass.emit('a', dedupe_id => 'e')"),
    ("cancel a queued job", "select windlass.cancel({tenant}, {queued})"),
    ("cancel a running job", "select windlass.cancel({tenant}, {running})"),
    ("cancel a job that others wait for", "select windlass.cancel({tenant}, {need})"),
    ("cancel a job of a dead worker", "select windlass.cancel({tenant}, {lost})"),
    ("cancel a blocked job", "select windlass.cancel({tenant}, {waiting})"),
    ("cancel a scheduled job", "select windlass.cancel({tenant}, {due})"),
    (
        "cancel jobs past their deadlines",
        "select windlass.cancel({tenant}, j) from unnest(array[{late}, {late_scheduled}, {late_blocked}]) j",
    ),
    ("retry", "select windlass.retry({tenant}, {old}, 'tester')"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_open_transaction_blocks_another_tenant_and_all_finishes_after_commit() {
    try_all("commit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_open_transaction_blocks_another_tenant_and_all_finishes_after_rollback() {
    try_all("rollback").await;
}

async fn try_all(end: &str) {
    let queue = TestQueue::create_apart().await;
    let chosen = some_of(OPEN, 7, usize::from(end == "rollback"));
    for (number, (name, statement)) in chosen.into_iter().enumerate() {
        let workers = Workers::new(&queue).await;
        let open = World::create(&queue, &workers, &format!("open-{number}")).await;
        let other = World::create(&queue, &workers, &format!("other-{number}")).await;
        workers.dead.miss_heartbeats().await;
        let deleted = queue.tenant(&format!("deleted-{number}")).await;
        workers.alive.enqueue(&format!("'held', tenant_id => '{deleted}'")).await;
        workers.alive.client.query("select windlass.mark_tenant_deleting($1)", &[&deleted]).await.unwrap();
        if name.contains("quota") {
            let limit = "update windlass.tenants set max_queued = 1000 where id = $1";
            workers.alive.client.execute(limit, &[&open.tenant]).await.unwrap();
            workers.alive.client.batch_execute("select setval('windlass.tenants_watched', 1)").await.unwrap();
        }

        let application = queue.client().await;
        let begin = format!(
            "set role windlass_app; set windlass.tenant_id = '{}'; begin; {}",
            open.tenant,
            open.fill_in(statement)
        );
        application.batch_execute(&begin).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        goes_through(&queue, &workers, &[&open, &other], &other, deleted, name).await;
        application.batch_execute(end).await.unwrap();
        is_done_afterwards(&queue, &workers, &open, name).await;
        assert_counts_are_exact(&workers.alive.client).await;
        workers.alive.miss_heartbeats().await;
    }
}

/// Fails with the name of the step that did not end.
async fn limited<T>(what: &str, work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| panic!("{what} waits for the open transaction"))
}

async fn round(queue: &TestQueue, duty: Duty, name: &str) {
    let what = format!("{name}: the duty {}", duty.as_str());
    limited(&what, keeper(queue).run_once(duty)).await.unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// All work of the other tenant, while the transaction is open.
async fn goes_through(
    queue: &TestQueue,
    workers: &Workers,
    both: &[&World; 2],
    other: &World,
    deleted: Uuid,
    name: &str,
) {
    let client = &workers.alive.client;
    let is = async |job: Uuid, wanted: &str| {
        let found = status(client, job).await;
        assert_eq!(found, wanted, "{name}");
    };
    for duty in Duty::ALL {
        if duty != Duty::Unblock {
            round(queue, duty, name).await;
        }
    }
    is(other.old, "missing").await;
    is(other.lost, "scheduled").await;
    for late in [other.late, other.late_scheduled, other.late_blocked] {
        is(late, "failed").await;
    }
    is(other.due, "queued").await;
    let fires = format!(
        "select count(*) from windlass.fire where tenant_id = '{}' and outcome = 'fired'",
        other.tenant
    );
    eventually(&format!("{name}: the schedule fires"), async || {
        round(queue, Duty::Schedule, name).await;
        count(client, &fires).await > 0
    })
    .await;
    eventually(&format!("{name}: the event is dispatched"), async || {
        round(queue, Duty::Dispatch, name).await;
        !event_is_pending(client, other.event).await
    })
    .await;
    let left = format!("select count(*) from windlass.job where tenant_id = '{deleted}'");
    eventually(&format!("{name}: a deleted tenant's jobs go"), async || {
        round(queue, Duty::PurgeTenants, name).await;
        count(client, &left).await == 0
    })
    .await;

    let fences = fences(client, both).await;
    let settled = limited(&format!("{name}: settle"), settle(client, &fences)).await;
    for fence in fences.iter().filter(|fence| fence.tenant == other.tenant) {
        assert!(settled.contains(&fence.job), "{name}");
    }
    eventually(&format!("{name}: what waited is released"), async || {
        round(queue, Duty::Unblock, name).await;
        status(client, other.waiting).await == "queued"
    })
    .await;
    let claimed = limited(&format!("{name}: claim"), workers.alive.claim_all()).await;
    assert!(claimed.iter().any(|fence| fence.job == other.queued), "{name}");
    assert!(limited(&format!("{name}: heartbeat"), workers.alive.heartbeat()).await);
    let cancel = "select windlass.cancel($1, $2)";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&other.tenant, &other.queued];
    limited(&format!("{name}: cancel"), client.query(cancel, &params)).await.unwrap();
    is(other.queued, "running").await;
}

/// All work of the tenant itself, after the transaction has ended.
async fn is_done_afterwards(queue: &TestQueue, workers: &Workers, open: &World, name: &str) {
    let client = &workers.alive.client;
    eventually(&format!("{name}: all is done afterwards"), async || {
        for duty in Duty::ALL {
            round(queue, duty, name).await;
        }
        workers.alive.claim_all().await;
        settle(client, &fences(client, &[open]).await).await;
        let of_tenant = |table: &str| {
            format!("select count(*) from windlass.{table} where tenant_id = '{}'", open.tenant)
        };
        let mut left = 0;
        for table in ["live", "line", "unblock_due", "event_pending"] {
            left += count(client, &of_tenant(table)).await;
        }
        for (table, instant) in [("deferred", "due_at"), ("expiry", "expires_at")] {
            let soon =
                format!("{} and {instant} < clock_timestamp() + interval '30 minutes'", of_tenant(table));
            left += count(client, &soon).await;
        }
        left == 0 && count(client, &of_tenant("fire")).await > 0
    })
    .await;
    for job in [
        open.running,
        open.need,
        open.lost,
        open.late,
        open.late_scheduled,
        open.late_blocked,
        open.waiting,
        open.due,
    ] {
        let found = status(client, job).await;
        assert!(["succeeded", "failed", "canceled"].contains(&found.as_str()), "{name}: {job} is {found}");
    }
}

async fn event_is_pending(client: &Client, id: Uuid) -> bool {
    count(client, &format!("select count(*) from windlass.event_pending where event_id = '{id}'")).await > 0
}

/// All running jobs of these tenants.
async fn fences(client: &Client, worlds: &[&World]) -> Vec<Fence> {
    let tenants: Vec<Uuid> = worlds.iter().map(|world| world.tenant).collect();
    let running = "select l.tenant_id, r.job_id, l.attempt, l.token from windlass.live l, windlass.running_of(l.ids, l.ended) r
        where l.tenant_id = any ($1) order by 1, 2";
    let rows = client.query(running, &[&tenants]).await.unwrap();
    rows.iter()
        .map(|row| Fence { tenant: row.get(0), job: row.get(1), attempt: row.get(2), token: row.get(3) })
        .collect()
}

/// Ends them in one batch, as a worker does; returns which were ended.
async fn settle(client: &Client, fences: &[Fence]) -> Vec<Uuid> {
    if fences.is_empty() {
        return Vec::new();
    }
    let settle =
        "select settled from windlass.settle($1, $2, $3, $4, array_fill(1, array[cardinality($2::uuid[])]),
        array_fill(null::jsonb, array[cardinality($2::uuid[])]), null, true)";
    let tenants: Vec<Uuid> = fences.iter().map(|fence| fence.tenant).collect();
    let jobs: Vec<Uuid> = fences.iter().map(|fence| fence.job).collect();
    let attempts: Vec<i32> = fences.iter().map(|fence| fence.attempt).collect();
    let tokens: Vec<Uuid> = fences.iter().map(|fence| fence.token).collect();
    let row = client.query_one(settle, &[&tenants, &jobs, &attempts, &tokens]).await.unwrap();
    let settled: Option<Vec<i32>> = row.get(0);
    settled.unwrap_or_default().into_iter().map(|ord| jobs[usize::try_from(ord - 1).unwrap()]).collect()
}
