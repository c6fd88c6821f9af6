//! Workers that are stopped.

use std::time::Duration;

use rustix::process::Signal;
use windlass_testing::{TestQueue, eventually};

use super::accounting::{number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send, send_many};

/// Invariants 13 and 15: jobs that end within the grace time succeed, the others are released without a counted failure, and none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_finishes_what_it_can_and_releases_the_rest() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let worker = fleet.spawn(queue.url(), &[("--grace-ms", "1500"), ("--concurrency", "6")]).await;
    let quick = send_many(&queue, "work", 300, 3).await;
    let slow = send_many(&queue, "work", 60_000, 3).await;
    eventually("all of them run", async || quick.iter().chain(&slow).all(|job| fleet.has_started(*job)))
        .await;
    let waiting = send_many(&queue, "work", 0, 5).await;
    worker.finish().await;

    let count = async |status: &str| {
        number(&client, &format!("select count(*) from windlass.jobs where status = '{status}'")).await
    };
    assert_eq!((count("succeeded").await, count("queued").await, count("running").await), (3, 8, 0));
    assert_eq!(number(&client, "select sum(failures + lost)::bigint from windlass.queued").await, 0);
    client.batch_execute("update windlass.job set payload = '{\"ms\": 1}'").await.unwrap();

    let next = fleet.spawn(queue.url(), &[]).await;
    let acked = [quick, slow, waiting].concat();
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    next.finish().await;
    assert_eq!((books.released, books.lost, books.overlaps), (3, 0, 0), "{books:?}");
}

/// Invariant 15: workers that start and stop under load release everything; nothing waits for a lease to expire.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_stop_cleanly_leave_nothing_to_the_reaper() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let flags = [("--grace-ms", "50"), ("--keeper", "false"), ("--concurrency", "50")];
    drop(fleet.spawn(queue.url(), &flags).await);
    let acked = send_many(&queue, "work", 10, 3000).await;
    for round in 1..=6 {
        let worker = fleet.spawn(queue.url(), &flags).await;
        eventually("it is working", async || fleet.entries().len() > round * 300).await;
        worker.finish().await;
        let running = number(&client, "select count(*) from windlass.running").await;
        assert_eq!(running, 0, "left running by round {round}");
    }
    let last = fleet.spawn(queue.url(), &[("--concurrency", "50")]).await;
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    last.finish().await;
    assert_eq!((books.lost, books.overlaps), (0, 0), "{books:?}");
}

/// Invariants 11 and 15: the second signal waits for nothing, and the reaper recovers the jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_at_once() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let mut worker = fleet.spawn(queue.url(), &[("--grace-ms", "600000")]).await;
    let slow = send(&queue, job("work", 600_000)).await;
    eventually("it runs", async || fleet.has_started(slow)).await;
    let next = send(&queue, job("work", 0)).await;
    // Two signals in quick succession are delivered as one, so a second one is sent until it takes effect.
    eventually("it has ended, long before its grace time has", async || {
        worker.signal(Signal::TERM);
        tokio::time::timeout(Duration::from_millis(200), worker.ended()).await.is_ok()
    })
    .await;
    client.batch_execute("update windlass.job set payload = '{\"ms\": 1}'").await.unwrap();

    let heir = fleet.spawn(queue.url(), &[]).await;
    let books = settle_accounts(&client, &fleet, &[slow, next], &[slow, next]).await;
    heir.finish().await;
    assert_eq!(books.overlaps, 0, "{books:?}");
}
