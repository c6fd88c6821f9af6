//! Hand-overs that a settlement did not make: those that it could not see, and those that were too many. The cost of finding them
//! is counted in rows, not in time.

use std::time::Duration;

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::{Duty, KeeperSettings};
use windlass_testing::{eventually, waiting_for_locks};

use crate::plans::watch::Watch;
use crate::support::{Acting, Hand, assert_counts_are_exact, count, ending, keeper, start, status, worker};

const BLOCKED: &str = "select count(*) from windlass.blocked";

async fn unblock_all(client: &Client) -> i32 {
    client.query_one("select decided from windlass.unblock_all(500)", &[]).await.unwrap().get(0)
}

/// This many jobs that depend on this one.
async fn wait_for(hand: &Hand, need: Uuid, how_many: i32, if_unmet: &str) {
    let enqueue = "select windlass.enqueue('held', depends_on => array[$1::uuid], if_unmet => $3) from generate_series(1, $2)";
    hand.client.execute(enqueue, &[&need, &how_many, &if_unmet]).await.unwrap();
}

/// A settlement is in progress that did not see the new job, and the keeper checks before it commits, more than once.
#[tokio::test(flavor = "multi_thread")]
async fn a_missed_hand_over_is_found_once_the_settlement_has_committed() {
    let (queue, hand) = start().await;
    let need = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    let settling = Hand { client: queue.client().await, worker: hand.worker };
    settling.client.batch_execute("begin").await.unwrap();
    assert!(settling.settle(&fence, None).await);
    let waits = hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[]")).await;
    for _ in 0..5 {
        assert_eq!(unblock_all(&hand.client).await, 0);
    }
    settling.client.batch_execute("commit").await.unwrap();
    // The slow scan of all blocked jobs would find it as well; this tests the fast path.
    hand.client
        .batch_execute(
            "update windlass.unblock_mark set sweep_tenant = 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        )
        .await
        .unwrap();
    assert_eq!(unblock_all(&hand.client).await, 1);
    assert_eq!(status(&hand.client, waits).await, "queued");
}

/// Transaction ids start again in a cluster that a backup was restored into.
#[tokio::test(flavor = "multi_thread")]
async fn missed_hand_overs_are_found_after_a_restore_into_a_new_cluster() {
    let (_queue, hand) = start().await;
    let need = hand.enqueue("'held'").await;
    wait_for(&hand, need, 1, "cancel").await;
    for _ in 0..3 {
        unblock_all(&hand.client).await;
    }
    let restored = "update windlass.unblock_mark set low = '9000000000', passed = '9000000000', barrier = '9000000000',
            began = '9000000000', began_barrier = '9000000000', sweep_tenant = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
        delete from windlass.line; insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, job_status)
            select tenant_id, id, now(), 0, lane, 1 from windlass.job where id not in (select job_id from windlass.blocked)";
    hand.client.batch_execute(restored).await.unwrap();
    assert_eq!(unblock_all(&hand.client).await, 1);
}

/// The final safeguard: everything that was missed is found, at any age.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_job_without_open_dependencies_is_started() {
    let (_queue, hand) = start().await;
    let need = hand.enqueue("'held'").await;
    wait_for(&hand, need, 250, "cancel").await;
    for _ in 0..3 {
        assert_eq!(unblock_all(&hand.client).await, 0);
    }
    hand.client.batch_execute("delete from windlass.dependency").await.unwrap();
    let mut rounds = 0;
    while count(&hand.client, BLOCKED).await > 0 {
        unblock_all(&hand.client).await;
        rounds += 1;
        assert!(rounds < 10, "a bounded part of them in every round");
    }
    assert_counts_are_exact(&hand.client).await;
}

/// The cost of the keeper depends on the new rows, not on the number of waiting jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_missed_hand_overs_reads_new_rows() {
    let (queue, hand) = start().await;
    let need = hand.enqueue("'held'").await;
    wait_for(&hand, need, 3000, "cancel").await;
    let mut watch = Watch::open(queue.url()).await;
    let read = async |watch: &mut Watch| {
        watch.client.execute("select windlass.unblock_new(200)", &[]).await.unwrap();
        let plans = watch.plans().await;
        plans.iter().map(|plan| plan.rows_read("dependency")).sum::<u64>()
    };
    // Its progress in a round depends on the oldest transaction of the whole server, which runs other tests too.
    eventually("everything was checked", async || {
        unblock_all(&hand.client).await;
        read(&mut watch).await == 0
    })
    .await;
    wait_for(&hand, need, 3, "cancel").await;
    let new = read(&mut watch).await;
    assert!((1..50).contains(&new), "{new}");
    // The other two parts read a bounded number of rows.
    watch.client.execute("select windlass.unblock_all(500)", &[]).await.unwrap();
    let plans = watch.plans().await;
    let all: u64 = plans.iter().map(|plan| plan.rows_read("dependency") + plan.rows_read("blocked")).sum();
    assert!(all < 1000, "{all} rows of 3003");
}

/// The thousandth job that depends on the same one costs as much as the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_depends_on_a_popular_one_reads_only_itself() {
    let (queue, hand) = start().await;
    let need = hand.enqueue("'held'").await;
    wait_for(&hand, need, 1000, "cancel").await;
    hand.client.batch_execute("analyze windlass.dependency, windlass.blocked").await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    for enqueue in ["blocked", "queued"] {
        let call =
            format!("select status from windlass.enqueue('held', depends_on => array['{need}']::uuid[])");
        let row = watch.client.query_one(&call, &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), enqueue);
        let plans = watch.plans().await;
        let rows: u64 =
            plans.iter().map(|plan| plan.rows_read("dependency") + plan.rows_read("blocked")).sum();
        assert!(rows < 20, "{rows} rows");
        if enqueue == "blocked" {
            let fence = hand.claim_one().await;
            assert!(hand.settle(&fence, None).await);
        }
    }
}

/// A settlement processes a bounded part, and notifies the keeper, which does the rest in batches.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_thousands_of_dependents_is_settled_in_bounded_steps() {
    for (detail, if_unmet, expected) in [
        (None, "cancel", "queued"),
        (Some(ending::failed()), "cancel", "canceled"),
        (Some(ending::failed()), "run", "queued"),
    ] {
        let (queue, hand) = start().await;
        let need = hand.enqueue("'held'").await;
        wait_for(&hand, need, 700, if_unmet).await;
        // Jobs that continue to wait must not take the places of the others.
        wait_for(&hand, need, 150, "wait").await;
        let fence = hand.claim_one().await;
        assert!(hand.settle(&fence, detail.clone()).await);
        let of_all = if detail.is_some() { 700 } else { 850 };
        assert_eq!(count(&hand.client, BLOCKED).await, 850 - 100, "{if_unmet}");
        let keeper = keeper(&queue);
        while keeper.run_once(Duty::Unblock).await.unwrap().is_full {}
        let ended = format!("select count(*) from windlass.jobs where status = '{expected}'");
        assert_eq!(count(&hand.client, &ended).await, of_all, "{if_unmet}");
        assert_eq!(count(&hand.client, BLOCKED).await, 850 - of_all);
        assert_eq!(count(&hand.client, "select count(*) from windlass.unblock_due").await, 0);
        assert_counts_are_exact(&hand.client).await;
    }
}

/// A failure that passes through a long chain is bounded too.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_passes_through_a_long_chain_in_bounded_steps() {
    let (queue, hand) = start().await;
    let first = hand.enqueue("'held'").await;
    let mut last = first;
    for _ in 0..250 {
        last = hand.enqueue(&format!("'held', depends_on => array['{last}']::uuid[]")).await;
    }
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    assert_eq!(count(&hand.client, BLOCKED).await, 150);
    let keeper = keeper(&queue);
    while keeper.run_once(Duty::Unblock).await.unwrap().is_full {}
    assert_eq!(status(&hand.client, last).await, "canceled");
    assert_eq!(count(&hand.client, BLOCKED).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// The keeper is notified of the rest: its own interval is an hour here.
#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_is_notified_of_the_rest_of_a_settlement() {
    let (queue, hand) = start().await;
    let need = hand.enqueue("'held'").await;
    wait_for(&hand, need, 300, "cancel").await;
    let fence = hand.claim_one().await;
    let hour = Duration::from_secs(3600);
    let settings = KeeperSettings::default().unblock(hour);
    let running = worker(&queue).handler(Acting).keeper(settings).start().await.unwrap();
    let listens = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen windlass%'";
    eventually("it listens", async || count(&hand.client, listens).await > 0).await;
    assert!(hand.settle(&fence, None).await);
    eventually("all are released", async || count(&hand.client, BLOCKED).await == 0).await;
    running.stop().await.unwrap();
}

/// Reaping continues while other duties are slow or wait for a lock.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_slow_delays_reaping() {
    let (queue, hand) = start().await;
    let id = hand.enqueue("'held'").await;
    hand.claim_one().await;
    let mut holder = queue.client().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("lock table windlass.unblock_mark, windlass.total").await.unwrap();
    let running = worker(&queue).handler(Acting).start().await.unwrap();
    eventually("the other duties wait", async || waiting_for_locks(&hand.client).await >= 2).await;
    hand.miss_heartbeats().await;
    let lost = "select count(*) from windlass.history where outcome = 5";
    eventually("the job is recovered", async || count(&hand.client, lost).await == 1).await;
    held.rollback().await.unwrap();
    running.stop().await.unwrap();
    assert_ne!(status(&hand.client, id).await, "running");
}
