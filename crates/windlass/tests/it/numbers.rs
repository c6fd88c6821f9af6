//! The 32-bit numbers of lanes and workers: after the last one they are taken from the start, except those in use.

use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

use crate::support::assert_counts_are_exact;

const LAST: &str =
    "select setval('windlass.lane_id_seq', 2147483647), setval('windlass.job_workers_id_seq', 2147483647)";

#[tokio::test]
async fn numbers_of_lanes_are_taken_again_after_the_last_one() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("a")).await.unwrap();
    for name in ["first", "second", "third"] {
        queue.enqueue(&NewJob::new("a").queue(name)).await.unwrap();
    }
    client.batch_execute(LAST).await.unwrap();
    for name in ["fourth", "fifth"] {
        queue.enqueue(&NewJob::new("a").queue(name)).await.unwrap();
    }
    let lanes = "select array_agg(queue || ' ' || id order by id) from windlass.lane";
    let lanes: Vec<String> = client.query_one(lanes, &[]).await.unwrap().get(0);
    assert_eq!(lanes, ["first 1", "second 2", "third 3", "fourth 4", "fifth 5"]);
    assert_counts_are_exact(&client).await;
}

#[tokio::test]
async fn numbers_of_workers_are_taken_again_after_the_last_one() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let register = async |name: &str| -> i32 {
        let call = "select windlass.register_worker($1, 'h', '', '{}', '{}', 60, '{}')";
        client.query_one(call, &[&name]).await.unwrap().get(0)
    };
    let register_pull = async |name: &str| -> i32 {
        let call = "select id from windlass.pull_register($1, 'h', '', '{}', '{}', 60, '{}')";
        client.query_one(call, &[&name]).await.unwrap().get(0)
    };
    assert_eq!(register("a").await, 1);
    assert_eq!(register_pull("b@pull").await, 2);
    client.batch_execute(LAST).await.unwrap();
    assert_eq!(register("c").await, 3);
    assert_eq!(register_pull("d@pull").await, 4);
    assert_eq!(register_pull("b@pull").await, 2, "a worker keeps its number");
}
