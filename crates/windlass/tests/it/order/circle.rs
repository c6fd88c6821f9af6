//! Retries that could make jobs wait for each other: none of them creates a cycle, and the key's jobs still run one at a time.

use uuid::Uuid;
use windlass_testing::until_waits_or_ends;

use super::start;
use crate::support::{Hand, assert_counts_are_exact, count, ending, status};

async fn behind(hand: &Hand, need: Uuid, options: &str) -> Uuid {
    hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[]{options}")).await
}

/// Runs the one queued job and ends it successfully; returns which it was.
async fn run_next(hand: &Hand) -> Uuid {
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    fence.job
}

async fn failed(hand: &Hand, options: &str) -> Uuid {
    let id = hand.enqueue(&format!("'held'{options}")).await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    id
}

/// The last job of the key depends, through another job, on the one that is retried: that one runs first.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_precedes_indirect_dependents_with_its_key() {
    let (_queue, hand) = start().await;
    let first = failed(&hand, ", ordering_key => 'k'").await;
    let between = behind(&hand, first, ", if_unmet => 'wait'").await;
    let last = behind(&hand, between, ", if_unmet => 'run', ordering_key => 'k'").await;
    assert_eq!(hand.retry(first).await, "queued");
    let after = hand.enqueue("'held', ordering_key => 'k'").await;
    for expected in [first, between, last, after] {
        assert_eq!(run_next(&hand).await, expected);
    }
    assert_eq!(count(&hand.client, "select count(*) from windlass.dependency").await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// Another job of the key is running and does not depend on the retried one: that one is placed in between, never beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_follows_the_nearest_job_of_its_key_that_is_not_a_dependent() {
    let (_queue, hand) = start().await;
    let first = failed(&hand, ", ordering_key => 'k'").await;
    let between = behind(&hand, first, ", if_unmet => 'wait'").await;
    let running = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'run'").await;
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, running);
    let last = behind(&hand, between, ", if_unmet => 'run', ordering_key => 'k'").await;
    assert_eq!(hand.retry(first).await, "blocked");
    assert!(hand.claim_all().await.is_empty(), "one job of the key runs");
    assert!(hand.settle(&fence, None).await);
    for expected in [first, between, last] {
        assert_eq!(run_next(&hand).await, expected);
    }
    assert_counts_are_exact(&hand.client).await;
}

/// Two retries, each of which adds one half of a cycle that the other does not see.
#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_retries_do_not_create_a_cycle() {
    for _ in 0..2 {
        let (queue, hand) = start().await;
        let one = failed(&hand, ", ordering_key => 'a'").await;
        let two = failed(&hand, ", ordering_key => 'b'").await;
        let behind_one = behind(&hand, one, ", if_unmet => 'wait'").await;
        let behind_two = behind(&hand, two, ", if_unmet => 'wait'").await;
        // The last job of each key depends on the other key's job.
        behind(&hand, behind_one, ", if_unmet => 'run', ordering_key => 'b'").await;
        behind(&hand, behind_two, ", if_unmet => 'run', ordering_key => 'a'").await;
        let other = Hand { client: queue.client().await, worker: hand.worker };
        hand.client.batch_execute("begin").await.unwrap();
        hand.retry(one).await;
        let retrying = tokio::spawn(async move { other.retry(two).await });
        until_waits_or_ends(&queue.client().await, &retrying).await;
        hand.client.batch_execute("commit").await.unwrap();
        retrying.await.unwrap();
        run_all(&hand).await;
        for id in [one, two] {
            assert_eq!(status(&hand.client, id).await, "succeeded");
        }
    }
}

/// Runs the queued jobs until none is left; none may be blocked forever.
async fn run_all(hand: &Hand) {
    loop {
        let fences = hand.claim_all().await;
        if fences.is_empty() {
            break;
        }
        for fence in fences {
            assert!(hand.settle(&fence, None).await);
        }
    }
    assert_eq!(
        count(&hand.client, "select count(*) from windlass.blocked").await,
        0,
        "they wait for each other"
    );
}
