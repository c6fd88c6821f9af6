//! The row by which an idle worker requests notifications.

use windlass_testing::{TestQueue, eventually};

use super::accounting::{number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send};

/// Invariant 29: an idle worker has the row and is woken; after its death the row is deleted, so that notifications cost nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_marked_as_waiting_until_it_stops() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let worker = fleet.spawn(queue.url(), &[]).await;
    let of = async |name: &str| {
        let query = "select count(*) from windlass.waiting w join windlass.job_workers j on j.id = w.worker where j.worker_id = $1";
        client.query_one(query, &[&name]).await.unwrap().get::<_, i64>(0)
    };
    eventually("it waits", async || of(&worker.name).await == 1).await;
    let woken = send(&queue, job("work", 0)).await;
    eventually("it is woken", async || fleet.has_started(woken)).await;
    let name = worker.name.clone();
    worker.kill().await;
    assert_eq!(of(&name).await, 1);
    let heir = fleet.spawn(queue.url(), &[]).await;
    eventually("the dead worker's row is deleted", async || of(&name).await == 0).await;
    settle_accounts(&client, &fleet, &[woken], &[woken]).await;
    let name = heir.name.clone();
    heir.finish().await;
    assert_eq!(of(&name).await, 0);
    assert_eq!(number(&client, "select count(*) from windlass.waiting").await, 0);
}
