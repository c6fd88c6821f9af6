//! The same for workers: one that leaves a transaction open keeps no other from waiting or stopping, and no lost job from being
//! recovered.

use serde_json::json;
use windlass::keeper::Duty;
use windlass_testing::{Login, TestQueue};

use super::{limited, round};
use crate::support::{Hand, count, status};

/// every worker that starts or ends to wait locks the same row.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_of_a_worker_stops_no_recovery_and_no_other_worker() {
    let queue = TestQueue::create_apart().await;
    let role = Login::create(&queue, "windlass_worker").await;
    let open = Hand::new(role.client().await).await;
    let dead = Hand::new(queue.client().await).await;
    let (leaving, busy) = (Hand::new(queue.client().await).await, Hand::new(queue.client().await).await);
    open.define(json!({"key": "held"})).await;
    let job = dead.enqueue("'held'").await;
    dead.claim_one().await;
    for hand in [&dead, &leaving, &busy] {
        hand.client.execute("select windlass.set_waiting($1, true)", &[&hand.worker]).await.unwrap();
    }
    dead.miss_heartbeats().await;
    // A row of a worker that does not exist, which the keeper deletes.
    dead.client.batch_execute("insert into windlass.waiting (worker) values (-1)").await.unwrap();
    let wait = format!("begin; select windlass.set_waiting({}, true)", open.worker);
    open.client.batch_execute(&wait).await.unwrap();

    let name = "a worker that waits";
    round(&queue, Duty::Reap, name).await;
    assert_ne!(status(&dead.client, job).await, "running");
    round(&queue, Duty::Reap, name).await;
    let closed = format!(
        "select count(*) from windlass.job_workers where stopped_at is not null and id in ({}, {})",
        dead.worker, leaving.worker
    );
    assert_eq!(count(&dead.client, &closed).await, 1, "the worker without a heartbeat");
    let stop = format!("select windlass.stop_worker({})", leaving.worker);
    limited("to stop a worker", leaving.client.batch_execute(&stop)).await.unwrap();
    for is_waiting in [false, true] {
        let set = "select windlass.set_waiting($1, $2)";
        limited("to wait", busy.client.query_one(set, &[&busy.worker, &is_waiting])).await.unwrap();
    }
    round(&queue, Duty::Reap, name).await;
    assert_eq!(count(&dead.client, &closed).await, 2);

    open.client.batch_execute("rollback").await.unwrap();
    round(&queue, Duty::Reap, name).await;
    let left = format!("select count(*) from windlass.waiting where worker <> {}", busy.worker);
    assert_eq!(count(&dead.client, &left).await, 0, "the rows that could not be deleted before");
    drop(open);
    role.drop().await;
}
