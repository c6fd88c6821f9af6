//! Workers that freeze and resume.

use rustix::process::Signal;
use windlass_testing::{TestQueue, eventually};

use super::accounting::{make_effect_table, number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send, send_many};

/// Invariants 5, 8, 15, 16 and 19: writes of a worker after its lease expired are rejected, it continues under a new name, and
/// each of its jobs ends once. Its runs may overlap their successors, as 18 allows for handlers in a process.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_workers_late_writes_are_rejected() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    make_effect_table(&client).await;
    let zombie = fleet.spawn(queue.url(), &[]).await;
    // Half of them have ended from the frozen worker's view the moment it resumes; the others are still running.
    let mut acked = send_many(&queue, "work", 500, 3).await;
    acked.extend(send_many(&queue, "work", 20_000, 3).await);
    acked.push(send(&queue, job("effect", 500)).await);
    eventually("all of them run", async || acked.iter().all(|job| fleet.has_started(*job))).await;
    zombie.signal(Signal::STOP);
    client.batch_execute("update windlass.job set payload = '{\"ms\": 1}'").await.unwrap();

    let heir = fleet.spawn(queue.url(), &[]).await;
    eventually("the lease of the frozen worker has expired", async || {
        number(&client, "select count(*) from windlass.job_workers where stopped_at is not null").await == 1
    })
    .await;
    zombie.signal(Signal::CONT);
    let query = format!(
        "select count(*) from windlass.job_workers where stopped_at is null and worker_id like '%:{}:%'",
        zombie.pid
    );
    eventually("it continues under a new name", async || number(&client, &query).await == 1).await;
    heir.finish().await;
    acked.push(send(&queue, job("work", 0)).await);

    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    zombie.finish().await;
    assert_eq!((books.lost, books.attempts), (7, 15), "{books:?}");
    assert_eq!(number(&client, "select count(*) from windlass.jobs where status <> 'succeeded'").await, 0);
}

/// Invariant 29: a worker that froze while it was idle is notified again once it has resumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_idle_worker_waits_under_its_new_name() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let zombie = fleet.spawn(queue.url(), &[]).await;
    let waits = "select count(*) from windlass.waiting w join windlass.job_workers j on j.id = w.worker where j.stopped_at is null";
    eventually("it waits", async || number(&client, waits).await == 1).await;
    zombie.signal(Signal::STOP);
    let heir = fleet.spawn(queue.url(), &[]).await;
    eventually("the lease of the frozen worker has expired", async || {
        number(&client, "select count(*) from windlass.job_workers where stopped_at is not null").await == 1
    })
    .await;
    heir.finish().await;
    zombie.signal(Signal::CONT);
    eventually("it waits again", async || number(&client, waits).await == 1).await;
    let job = send(&queue, job("work", 0)).await;
    settle_accounts(&client, &fleet, &[job], &[job]).await;
    zombie.finish().await;
}
