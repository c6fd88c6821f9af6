//! Jobs of an ordering key that are canceled while they wait: their dependencies still precede those behind them.

use super::start;
use crate::support::{assert_counts_are_exact, count, status};

/// One canceled by an operator and one canceled because of it are between a waiting job and the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_behind_canceled_ones_inherits_their_dependencies() {
    let (_queue, hand) = start().await;
    let running = hand.enqueue("'held', ordering_key => 'k'").await;
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, running);
    let waiting = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'wait'").await;
    let by_hand = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'cancel'").await;
    hand.cancel(by_hand).await;
    let for_it = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'cancel'").await;
    assert_eq!(status(&hand.client, for_it).await, "canceled");
    let last = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'run'").await;
    assert!(hand.claim_all().await.is_empty(), "one job of the key runs");
    assert!(hand.settle(&fence, None).await);
    for expected in [waiting, last] {
        let fence = hand.claim_one().await;
        assert_eq!(fence.job, expected);
        assert!(hand.settle(&fence, None).await);
    }
    assert_eq!(count(&hand.client, "select count(*) from windlass.dependency").await, 0);
    assert_counts_are_exact(&hand.client).await;
}
