//! Late messages: a claim that its worker has abandoned, and a message of a worker whose lease expired.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, until_a_session_waits};

use crate::support::{Hand, count, job, keeper, register, start};

const WAITING: &str = "select count(*) from windlass.waiting";

/// Executes `late` while the line is locked, so that it takes effect only after `meanwhile`, and returns its result.
async fn overtaken<T: Send + 'static>(
    queue: &TestQueue,
    late: impl Future<Output = T> + Send + 'static,
    meanwhile: impl AsyncFnOnce(&Client),
) -> T {
    let mut holder = queue.client().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("lock table windlass.line").await.unwrap();
    let late = tokio::spawn(late);
    let other = queue.client().await;
    until_a_session_waits(&other).await;
    meanwhile(&other).await;
    held.rollback().await.unwrap();
    late.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_executed_after_its_release_takes_nothing() {
    let (queue, hand) = start().await;
    for _ in 0..3 {
        hand.enqueue("'held'").await;
    }
    for several in [true, false] {
        // The second time one job is left, which is claimed by another path.
        if !several {
            assert_eq!(claim(&queue.client().await, hand.worker, Uuid::new_v4(), 2, 1).await, 2);
        }
        let (token, worker, epoch) = (Uuid::new_v4(), hand.worker, i32::from(!several));
        let client = queue.client().await;
        let taken =
            overtaken(&queue, async move { claim(&client, worker, token, 9, epoch).await }, async |other| {
                let give_back = "select windlass.unclaim($1, $2, array(select id from windlass.lane), $3)";
                let given = other.query_one(give_back, &[&worker, &token, &epoch]).await.unwrap();
                assert_eq!(given.get::<_, i32>(0), 0, "it has taken nothing yet");
            })
            .await;
        assert_eq!(taken, 0, "its worker does not have the jobs that it takes");
    }
    assert_eq!(count(&hand.client, "select count(*) from windlass.running").await, 2);
    assert_eq!(claim(&hand.client, hand.worker, Uuid::new_v4(), 9, 2).await, 1, "the next epoch continues");
}

async fn claim(client: &Client, worker: i32, token: Uuid, most: i32, epoch: i32) -> usize {
    let claim = "select c.job_id from windlass.lane l, windlass.claim($1, $2, array[l.id], array[0::bigint], array[$3::integer], $4) c";
    client.query(claim, &[&worker, &token, &most, &epoch]).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_twice_ends_one_epoch_and_releases_the_jobs() {
    let (_queue, hand) = start().await;
    let id = hand.enqueue("'held'").await;
    let token = Uuid::new_v4();
    assert_eq!(claim(&hand.client, hand.worker, token, 1, 0).await, 1);
    let give_back = "select windlass.unclaim($1, $2, array(select id from windlass.lane), 0)";
    for _ in 0..2 {
        let left = hand.client.query_one(give_back, &[&hand.worker, &token]).await.unwrap();
        assert_eq!(left.get::<_, i32>(0), 0, "nothing is left over");
    }
    let row = job(&hand.client, id).await;
    assert_eq!(row["status"], "queued");
    let epoch = format!("select epoch::bigint from windlass.job_workers where id = {}", hand.worker);
    assert_eq!(count(&hand.client, &epoch).await, 1);
    assert_eq!(claim(&hand.client, hand.worker, Uuid::new_v4(), 1, 0).await, 0);
    assert_eq!(claim(&hand.client, hand.worker, Uuid::new_v4(), 1, 1).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_claim_executed_after_its_release_takes_nothing() {
    let (queue, hand) = start().await;
    hand.enqueue("'held'").await;
    let (dispatcher, puller, token) = (hand.worker, register(&hand.client).await, Uuid::new_v4());
    let client = queue.client().await;
    let late = async move {
        let claim = "select c.job_id from windlass.lane l, windlass.pull_claim($1, gen_random_uuid(), array[l.id], array[0::bigint],
            array[1], array[$2::integer], array[60], array[$3::uuid], 30, 0) c";
        client.query(claim, &[&dispatcher, &puller, &token]).await.unwrap().len()
    };
    let taken = overtaken(&queue, late, async |other| {
        let give_back = "select windlass.pull_unclaim($1, array[$2::uuid], 0)";
        other.execute(give_back, &[&dispatcher, &token]).await.unwrap();
    })
    .await;
    assert_eq!(taken, 0);
    assert_eq!(count(&hand.client, "select count(*) from windlass.live").await, 0);
    assert_eq!(count(&hand.client, "select count(*) from windlass.pull_lease").await, 0);
}

/// While there is a row, every enqueue notifies; nothing removes the row of a worker that does not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_after_its_lease_expired_leaves_no_row() {
    let (queue, hand) = start().await;
    let keeper = keeper(&queue);
    let wait = async |hand: &Hand| -> bool {
        hand.client.query_one("select windlass.set_waiting($1, true)", &[&hand.worker]).await.unwrap().get(0)
    };
    assert!(wait(&hand).await);
    hand.miss_heartbeats().await;
    assert!(!wait(&hand).await, "its lease has expired");
    keeper.run_once(Duty::Reap).await.unwrap();
    assert_eq!(count(&hand.client, WAITING).await, 0);
    assert!(!wait(&hand).await, "its lease has expired");
    assert_eq!(count(&hand.client, WAITING).await, 0);

    let stopped = Hand::new(queue.client().await).await;
    stopped.client.execute("select windlass.stop_worker($1)", &[&stopped.worker]).await.unwrap();
    assert!(!wait(&stopped).await, "it has closed its row");
    // A row that an earlier release left behind.
    let leaked = format!("insert into windlass.waiting values ({}), (987654)", hand.worker);
    hand.client.batch_execute(&leaked).await.unwrap();
    let alive = Hand::new(queue.client().await).await;
    assert!(wait(&alive).await);
    keeper.run_once(Duty::Reap).await.unwrap();
    let left = "select string_agg(worker::text, ' ' order by worker) from windlass.waiting";
    let left: String = hand.client.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, alive.worker.to_string());
}

/// The reaper closes a worker while that worker starts to wait: in both orders no row is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_closed_while_it_starts_to_wait() {
    let (queue, hand) = start().await;
    let mut client = queue.client().await;
    let saying = client.transaction().await.unwrap();
    saying.execute("select windlass.set_waiting($1, true)", &[&hand.worker]).await.unwrap();
    hand.miss_heartbeats().await;
    let keeper = keeper(&queue);
    keeper.run_once(Duty::Reap).await.unwrap();
    saying.commit().await.unwrap();
    keeper.run_once(Duty::Reap).await.unwrap();
    let open = "select count(*) from windlass.job_workers where stopped_at is null";
    assert_eq!((count(&hand.client, open).await, count(&hand.client, WAITING).await), (0, 0));
}
