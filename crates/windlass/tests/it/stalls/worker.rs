//! The same for a worker: the ends of its runs.

use serde_json::json;
use uuid::Uuid;
use windlass::{Definition, Done, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Desk, Hand, Held, Run, assert_counts_are_exact, status, until, worker};

/// The next two runs, of these jobs.
async fn both(desk: &mut Desk, one: Uuid, other: Uuid) -> (Run, Run) {
    let (first, second) = (desk.next().await, desk.next().await);
    let (first, second) = if first.job == one { (first, second) } else { (second, first) };
    assert_eq!((first.job, second.job), (one, other));
    (first, second)
}

async fn enqueue(queue: &TestQueue, tenant: Uuid) -> Uuid {
    queue.enqueue(&NewJob::new("held").tenant(tenant)).await.unwrap().id
}

/// With one slot only: the waiting end must not occupy it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_job_is_being_canceled_does_not_block_other_ends() {
    let queue = TestQueue::create_apart().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).concurrency(1).start().await.unwrap();
    let (mine, other) = (queue.tenant("mine").await, queue.tenant("other").await);
    let application = queue.client().await;
    for end in ["commit", "rollback"] {
        let canceled = enqueue(&queue, mine).await;
        let run = desk.next().await;
        let cancel = format!("begin; select windlass.cancel('{mine}', '{canceled}')");
        application.batch_execute(&cancel).await.unwrap();
        run.succeed();
        for _ in 0..3 {
            let job = enqueue(&queue, other).await;
            desk.next().await.succeed();
            until(&client, job, "succeeded").await;
        }
        assert_eq!(status(&client, canceled).await, "running");
        application.batch_execute(end).await.unwrap();
        until(&client, canceled, if end == "commit" { "canceled" } else { "succeeded" }).await;
    }
    worker.stop().await.unwrap();
    assert_counts_are_exact(&client).await;
}

/// The end of a run waits for a key that a job chained to it needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_chained_job_must_wait_does_not_block_other_ends() {
    let queue = TestQueue::create_apart().await;
    let client = queue.client().await;
    queue.define(&Definition::new("next")).await.unwrap();
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).concurrency(2).start().await.unwrap();
    let (mine, other) = (queue.tenant("mine").await, queue.tenant("other").await);
    let application = queue.client().await;
    for (end, followers) in [("commit", 1), ("rollback", 2)] {
        let take =
            format!("begin; select windlass.enqueue('next', tenant_id => '{mine}', dedupe_key => '{end}')");
        application.batch_execute(&take).await.unwrap();
        let (parent, plain) = (enqueue(&queue, mine).await, enqueue(&queue, other).await);
        let (of_parent, of_plain) = both(&mut desk, parent, plain).await;
        of_parent.end(Ok(Done::new().then(NewJob::new("next").dedupe_key(end)).then(NewJob::new("next"))));
        of_plain.succeed();
        until(&client, plain, "succeeded").await;
        // Again with the already delayed ones.
        let (again, plain) = (enqueue(&queue, mine).await, enqueue(&queue, other).await);
        let (of_again, of_plain) = both(&mut desk, again, plain).await;
        of_again.end(Ok(Done::new().then(NewJob::new("next").dedupe_key(end))));
        of_plain.succeed();
        until(&client, plain, "succeeded").await;
        for job in [parent, again] {
            assert_eq!(status(&client, job).await, "running");
        }
        application.batch_execute(end).await.unwrap();
        for job in [parent, again] {
            until(&client, job, "succeeded").await;
        }
        let text = "select count(*) from windlass.jobs where parent_id = any ($1)";
        let made: i64 = client.query_one(text, &[&vec![parent, again]]).await.unwrap().get(0);
        assert_eq!(made, followers, "{end}");
    }
    worker.stop().await.unwrap();
    assert_counts_are_exact(&client).await;
}

/// A claim without a response is released except for locked jobs, and those later.
#[tokio::test(flavor = "multi_thread")]
async fn an_unclaim_releases_what_it_can() {
    let queue = TestQueue::create_apart().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    // In two lanes, and so in two blocks: a cancel locks its block.
    let jobs = [hand.enqueue("'held'").await, hand.enqueue("'held', priority => 7").await];
    let fences = hand.claim_all().await;
    let application = queue.client().await;
    let cancel = format!("begin; select windlass.cancel('{}', '{}')", fences[0].tenant, jobs[0]);
    application.batch_execute(&cancel).await.unwrap();
    let unclaim = "select windlass.unclaim($1, $2, (select array_agg(id) from windlass.lane), 0)";
    let left = async || -> i32 {
        hand.client.query_one(unclaim, &[&hand.worker, &fences[0].token]).await.unwrap().get(0)
    };
    assert_eq!(left().await, 1);
    assert_eq!(status(&hand.client, jobs[1]).await, "queued");
    application.batch_execute("rollback").await.unwrap();
    assert_eq!(left().await, 0);
    assert_eq!(status(&hand.client, jobs[0]).await, "queued");
}
