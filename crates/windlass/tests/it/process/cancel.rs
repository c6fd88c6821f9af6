//! Cancel requests between processes.

use windlass::DEFAULT_TENANT;
use windlass::job::Canceled;
use windlass_testing::{TestQueue, eventually};

use super::accounting::{number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send};

/// Invariants 40 to 42: a running job keeps its key until its holder, in another process, has stopped; then it is canceled.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_process_that_runs_the_job() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let worker = fleet.spawn(queue.url(), &[("--concurrency", "2")]).await;
    let running = send(&queue, job("work", 600_000).dedupe_key("one at a time")).await;
    let neighbour = send(&queue, job("work", 1_000)).await;
    eventually("both run", async || fleet.has_started(running) && fleet.has_started(neighbour)).await;
    let waiting = send(&queue, job("work", 600_000)).await;
    assert_eq!(queue.cancel(DEFAULT_TENANT, waiting).await.unwrap(), Canceled::Now);
    assert_eq!(queue.cancel(DEFAULT_TENANT, running).await.unwrap(), Canceled::Requested);
    let acked = [running, neighbour, waiting];
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    worker.finish().await;
    assert_eq!((fleet.starts_of(waiting), books.overlaps), (0, 0), "{books:?}");
    let statuses = "select count(*) from windlass.jobs where status = 'canceled'";
    assert_eq!(number(&client, statuses).await, 2);
}

/// Invariants 41 and 42: the holder dies before it has read the request, and the reaper completes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_dead_workers_job_is_completed_by_the_reaper() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let victim = fleet.spawn(queue.url(), &[]).await;
    let running = send(&queue, job("work", 600_000).dedupe_key("one at a time")).await;
    eventually("it runs", async || fleet.has_started(running)).await;
    victim.kill().await;
    assert_eq!(queue.cancel(DEFAULT_TENANT, running).await.unwrap(), Canceled::Requested);
    let duplicate = queue.enqueue(&job("work", 0).dedupe_key("one at a time")).await.unwrap();
    assert_eq!((duplicate.id, duplicate.is_duplicate), (running, true));
    let reaper = fleet.spawn(queue.url(), &[]).await;
    settle_accounts(&client, &fleet, &[running], &[running]).await;
    reaper.finish().await;
    let row = client.query_one("select status, attempt_count from windlass.jobs", &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), ("canceled", 1));
}
