//! Jobs that kill their worker.

use windlass_testing::{TestQueue, eventually};

use super::accounting::{number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send, send_many};

/// Invariant 14: a job that kills its worker ends as poison after exactly `max_lost` attempts, however often a supervisor
/// restarts the worker, and no other job is affected by more than a second run.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_worker_ends_as_poison() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let flags = [("--lease-ms", "1000"), ("--heartbeat-ms", "300"), ("--reap-ms", "300")];
    let mut worker = fleet.spawn(queue.url(), &flags).await;
    let killer = send(&queue, job("killer", 0)).await;
    let mut acked = vec![killer];
    let finished =
        format!("select count(*) from windlass.history where job_id = '{killer}' and job_status is not null");
    let mut deaths = 0;
    loop {
        acked.extend(send_many(&queue, "work", 5, 20).await);
        tokio::select! {
            _ = worker.ended() => {
                deaths += 1;
                worker = fleet.spawn(queue.url(), &flags).await;
            }
            () = eventually("the job that kills its worker has ended", async || number(&client, &finished).await == 1) => break,
        }
    }
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    worker.finish().await;
    assert_eq!((deaths, fleet.starts_of(killer), books.overlaps), (3, 3, 0), "{books:?}");
    let row =
        client.query_one("select status, reason from windlass.jobs where id = $1", &[&killer]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), ("dead_letter", "poison"));
    let harmed = "select count(*) from windlass.jobs where definition_key = 'work' and status <> 'succeeded'";
    assert_eq!(number(&client, harmed).await, 0);
}
