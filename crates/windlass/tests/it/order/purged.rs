//! Jobs of an ordering key that are deleted while they wait: the jobs that they waited for still precede those behind them.

use uuid::Uuid;
use windlass::DEFAULT_TENANT;

use super::start;
use crate::support::{Hand, assert_counts_are_exact, count};

async fn purge(hand: &Hand, jobs: &[Uuid]) -> i32 {
    let purge = "select windlass.purge($1, $2)";
    hand.client.query_one(purge, &[&DEFAULT_TENANT, &jobs]).await.unwrap().get(0)
}

/// The next job of the key starts after the running one, and not beside it.
async fn assert_next_job_waits(hand: &Hand, fence: &windlass::job::Fence) {
    let next = hand.enqueue("'held', ordering_key => 'k'").await;
    assert!(hand.claim_all().await.is_empty(), "one job of the key runs");
    assert!(hand.settle(fence, None).await);
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, next);
    assert!(hand.settle(&fence, None).await);
    assert_eq!(count(&hand.client, "select count(*) from windlass.dependency").await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// The second purge finds no body any more, only the dependency that the first one kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_purged_twice_still_keeps_its_key_in_order() {
    let (_queue, hand) = start().await;
    hand.enqueue("'held', ordering_key => 'k'").await;
    let fence = hand.claim_one().await;
    let waiting = hand.enqueue("'held', ordering_key => 'k'").await;
    assert_eq!(purge(&hand, &[waiting]).await, 1);
    assert_eq!(purge(&hand, &[waiting]).await, 0);
    assert_next_job_waits(&hand, &fence).await;
}

/// The second one waits for the first, so its dependency has no body at either end.
#[tokio::test(flavor = "multi_thread")]
async fn adjacent_jobs_that_are_purged_together_keep_the_order_of_their_key() {
    for policy in ["wait", "cancel", "run"] {
        let (_queue, hand) = start().await;
        hand.enqueue("'held', ordering_key => 'k'").await;
        let fence = hand.claim_one().await;
        let first = hand.enqueue("'held', ordering_key => 'k'").await;
        let second = hand.enqueue("'held', ordering_key => 'k'").await;
        let behind = hand.enqueue(&format!("'held', ordering_key => 'k', if_unmet => '{policy}'")).await;
        assert_eq!(purge(&hand, &[first, second]).await, 2);
        assert!(hand.claim_all().await.is_empty(), "one job of the key runs");
        hand.cancel(behind).await;
        assert_next_job_waits(&hand, &fence).await;
    }
}

/// The dependency exists for both reasons, the key and the name.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_dependency_within_a_key_is_kept_as_well() {
    let (_queue, hand) = start().await;
    let running = hand.enqueue("'held', ordering_key => 'k'").await;
    let fence = hand.claim_one().await;
    let waiting =
        hand.enqueue(&format!("'held', ordering_key => 'k', depends_on => array['{running}']::uuid[]")).await;
    assert_eq!(purge(&hand, &[waiting]).await, 1);
    assert_eq!(purge(&hand, &[waiting]).await, 0);
    assert_next_job_waits(&hand, &fence).await;
}
