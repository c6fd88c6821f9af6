//! Retries beside an unblock: a dependency that is about to be decided, or was decided after the snapshot, does not
//! precede anything.

use tokio_postgres::error::SqlState;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::admin::{Actor, Reach};
use windlass::job::{Filter, State};
use windlass_testing::{TestQueue, until_waits_or_ends};

use super::start;
use crate::support::{Hand, assert_counts_are_exact, count, ending, status};

const RETRY: &str = "select result from windlass.retry($1, $2, 'tester')";
const RETRY_MANY: &str = "select windlass.retry_many($1, array[$2::uuid], null, 'tester')";

/// Two jobs of a key. The first one has ended; the second one still waits for it, because a transaction that was canceling
/// it was open then. It has ended since, so the keeper can decide.
async fn ended_and_undecided(queue: &TestQueue, hand: &Hand) -> [Uuid; 2] {
    let first = hand.enqueue("'held', ordering_key => 'k'").await;
    let fence = hand.claim_one().await;
    let second = hand.enqueue("'held', ordering_key => 'k'").await;
    let open = queue.client().await;
    open.batch_execute(&format!("begin; select windlass.cancel('{DEFAULT_TENANT}', '{second}')"))
        .await
        .unwrap();
    assert!(hand.settle(&fence, None).await);
    open.batch_execute("rollback").await.unwrap();
    assert_eq!(status(&hand.client, second).await, "blocked");
    [first, second]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_for_an_unblock_in_progress_and_follows_the_job_that_it_starts() {
    let (queue, hand) = start().await;
    let [first, second] = ended_and_undecided(&queue, &hand).await;
    let keeper = queue.client().await;
    keeper.batch_execute("begin; select windlass.unblock_all(100)").await.unwrap();
    let other = Hand { client: queue.client().await, worker: hand.worker };
    let retrying = tokio::spawn(async move { other.retry(first).await });
    until_waits_or_ends(&queue.client().await, &retrying).await;
    keeper.batch_execute("commit").await.unwrap();
    assert_eq!(retrying.await.unwrap(), "blocked", "it follows the second job");
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, second);
    assert!(hand.settle(&fence, None).await);
    assert_eq!(hand.claim_one().await.job, first);
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_snapshot_shows_a_decided_dependency_fails() {
    for level in ["repeatable read", "serializable"] {
        for retry in [RETRY, RETRY_MANY] {
            let (queue, hand) = start().await;
            let [first, second] = ended_and_undecided(&queue, &hand).await;
            let old = queue.client().await;
            old.batch_execute(&format!("begin isolation level {level}; select from windlass.job"))
                .await
                .unwrap();
            hand.client.batch_execute("select windlass.unblock_all(100)").await.unwrap();
            assert_eq!(hand.claim_one().await.job, second);
            let refused = old.query_one(retry, &[&DEFAULT_TENANT, &first]).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{refused:?}");
            old.batch_execute("rollback").await.unwrap();
            assert_eq!(hand.retry(first).await, "blocked");
        }
    }
}

/// A dependency from before the end of a job may still exist when the job is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_dependency_has_failed_meanwhile_is_canceled_again() {
    for is_bulk in [false, true] {
        let (queue, hand) = start().await;
        let failing = hand.enqueue("'held'").await;
        let fence = hand.claim_one().await;
        let id = hand.enqueue(&format!("'held', depends_on => array['{failing}'::uuid]")).await;
        assert_eq!(hand.cancel(id).await, "canceled");
        assert!(hand.settle(&fence, Some(ending::failed())).await);
        let kept = "insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet, is_ordering)
                      values ($1, $2, $3, 'cancel', false)";
        hand.client.execute(kept, &[&DEFAULT_TENANT, &failing, &id]).await.unwrap();
        if is_bulk {
            let acting = queue.act(Reach::Tenant(DEFAULT_TENANT), &Actor::new("tester")).await.unwrap();
            let all = acting.retry_many(&Filter::new(DEFAULT_TENANT).ids([id]), None).await.unwrap();
            assert_eq!((all.outcomes.as_slice(), all.changed()), (&[(id, "canceled".to_owned())][..], 1));
            acting.commit().await.unwrap();
        } else {
            let state = queue.retry(DEFAULT_TENANT, id, "tester").await.unwrap();
            assert_eq!(state, State::Canceled);
        }
        let recorded = "select count(*) from windlass.audit where action like 'job.retry%'";
        assert_eq!(count(&hand.client, recorded).await, 1, "bulk: {is_bulk}");
        assert_counts_are_exact(&hand.client).await;
    }
}
