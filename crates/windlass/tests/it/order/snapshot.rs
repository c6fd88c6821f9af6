//! Transactions with a fixed snapshot: a job that was retried since is not taken for ended, so no two jobs of an ordering key
//! run at once.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, eventually};

use super::start;
use crate::support::{Hand, assert_counts_are_exact, ending, keeper, status};

const LEVELS: [&str; 2] = ["repeatable read", "serializable"];

/// Two jobs of a key: the first one is a dead letter, and the second one waits for it.
async fn dead_and_waiting(hand: &Hand) -> [Uuid; 2] {
    let first = hand.enqueue("'held', ordering_key => 'k'").await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::dead_letter())).await);
    let second = hand.enqueue("'held', ordering_key => 'k'").await;
    assert_eq!(status(&hand.client, second).await, "blocked");
    [first, second]
}

/// A transaction whose snapshot is from before this retry of the first job, which then runs.
async fn retried_since(queue: &TestQueue, hand: &Hand, level: &str, first: Uuid) -> Client {
    let old = queue.client().await;
    old.batch_execute(&format!("begin isolation level {level}; select from windlass.job")).await.unwrap();
    assert_eq!(hand.retry(first).await, "queued");
    assert_eq!(hand.claim_one().await.job, first);
    old
}

/// The third job starts when the first one has ended, and not before.
async fn runs_after(queue: &TestQueue, hand: &Hand, first: Uuid, third: Uuid) {
    keeper(queue).run_once(Duty::Unblock).await.unwrap();
    assert_eq!(hand.claim_all().await.len(), 0, "the first job of the key is running");
    assert_eq!(status(&hand.client, third).await, "blocked");
    let running = "select tenant_id, $1::uuid, attempt, token from windlass.live where $1 = any (ids)";
    let row = hand.client.query_one(running, &[&first]).await.unwrap();
    let fence =
        windlass::job::Fence { tenant: row.get(0), job: row.get(1), attempt: row.get(2), token: row.get(3) };
    assert!(hand.settle(&fence, None).await);
    eventually("the third job is queued", async || {
        keeper(queue).run_once(Duty::Unblock).await.unwrap();
        status(&hand.client, third).await == "queued"
    })
    .await;
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_with_an_old_snapshot_starts_no_job_beside_a_retried_one() {
    for level in LEVELS {
        let (queue, hand) = start().await;
        let [first, second] = dead_and_waiting(&hand).await;
        let third = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'run'").await;
        let old = retried_since(&queue, &hand, level, first).await;
        old.query_one("select windlass.cancel($1, $2)", &[&DEFAULT_TENANT, &second]).await.unwrap();
        old.batch_execute("commit").await.unwrap();
        runs_after(&queue, &hand, first, third).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_with_an_old_snapshot_starts_no_job_beside_a_retried_one() {
    for level in LEVELS {
        let (queue, hand) = start().await;
        let [first, second] = dead_and_waiting(&hand).await;
        hand.cancel(second).await;
        let old = retried_since(&queue, &hand, level, first).await;
        let enqueue = "select id from windlass.enqueue('held', ordering_key => 'k', if_unmet => 'run')";
        let third = old.query_one(enqueue, &[]).await.unwrap().get(0);
        old.batch_execute("commit").await.unwrap();
        runs_after(&queue, &hand, first, third).await;
    }
}

/// The last job of the key was purged, so the new one takes over what it waited for.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_behind_a_purged_job_with_an_old_snapshot_fails_if_the_job_before_was_retried() {
    for level in LEVELS {
        let (queue, hand) = start().await;
        let [first, second] = dead_and_waiting(&hand).await;
        queue.purge(DEFAULT_TENANT, &[second]).await.unwrap();
        let old = retried_since(&queue, &hand, level, first).await;
        let enqueue = "select id from windlass.enqueue('held', ordering_key => 'k', if_unmet => 'run')";
        let refused = old.query_one(enqueue, &[]).await.unwrap_err();
        assert_eq!(refused.code().map(|code| code.code()), Some("40001"), "{refused:?}");
        old.batch_execute("rollback").await.unwrap();
        let third = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'run'").await;
        runs_after(&queue, &hand, first, third).await;
    }
}
