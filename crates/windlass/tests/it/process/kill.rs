//! Workers that are killed while they work.

use windlass_testing::{TestQueue, eventually};

use super::accounting::{make_effect_table, number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send, send_many};

/// Invariants 11, 12, 14 to 16 and 18: a dead worker's jobs run again on another one, its attempts are `lost`, and no run overlaps another.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_jobs_run_again_on_another() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    make_effect_table(&client).await;
    let victim = fleet.spawn(queue.url(), &[]).await;
    let long = send_many(&queue, "work", 60_000, 3).await;
    let open = send(&queue, job("effect", 60_000)).await;
    let short = send_many(&queue, "work", 0, 20).await;
    eventually("the long jobs run and the short ones have ended", async || {
        long.iter().chain([&open]).all(|job| fleet.has_started(*job))
            && number(&client, "select count(*) from windlass.history").await == 20
    })
    .await;
    victim.kill().await;
    // From now on they are short: the test proves that they run, not for how long.
    client.batch_execute("update windlass.job set payload = '{\"ms\": 1}'").await.unwrap();

    let heir = fleet.spawn(queue.url(), &[]).await;
    let acked = [long.clone(), vec![open], short].concat();
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    heir.finish().await;
    assert_eq!((books.lost, books.overlaps), (4, 0), "{books:?}");
    for job in long.iter().chain([&open]) {
        let query =
            "select string_agg(status, ' ' order by attempt_no) from windlass.job_attempts where job_id = $1";
        let attempts: String = client.query_one(query, &[job]).await.unwrap().get(0);
        assert_eq!(attempts, "lost succeeded");
    }
}

/// Invariants 9, 11, 15, 16 and 18 over several deaths under load.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_crash_repeatedly_lose_no_job() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    make_effect_table(&client).await;
    let flags = [("--lease-ms", "1000"), ("--heartbeat-ms", "300"), ("--reap-ms", "300")];
    let survivor = fleet.spawn(queue.url(), &flags).await;
    let mut acked = Vec::new();
    for _ in 0..2 {
        let victim = fleet.spawn(queue.url(), &flags).await;
        acked.extend(send_many(&queue, "work", 20, 150).await);
        acked.extend(send_many(&queue, "effect", 5, 50).await);
        let newest = acked.len() - 60;
        eventually("the load is half done", async || fleet.has_started(acked[newest])).await;
        victim.kill().await;
    }
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    survivor.finish().await;
    assert_eq!(books.overlaps, 0, "{books:?}");
}
