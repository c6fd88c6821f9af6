//! Deletions that were decided earlier, and later changes of the job: a retry, or another job that depends on it.

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::job::State;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, until_a_session_waits};

use super::{DAY, ended, prune, statuses};
use crate::support::{Hand, assert_counts_are_exact, count, ending, status};

const WAITS: &str = "select count(*) from windlass.purge_wait";

async fn start() -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tts = Definition::new("tts").retention(State::Succeeded, DAY).on_purge("remove-audio");
    queue.define(&tts).await.unwrap();
    queue.define(&Definition::new("remove-audio")).await.unwrap();
    let kept = Definition::new("held").retention(State::Failed, DAY).retention(State::Canceled, DAY);
    queue.define(&kept).await.unwrap();
    (queue, hand)
}

fn with_artifact() -> Option<Value> {
    Some(
        json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": {"path": "a.mp3"}}),
    )
}

/// The clean-up may be waiting, running or done when the operator retries the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_is_not_deleted_when_its_clean_up_is_done() {
    for clean_up_was in ["queued", "running", "succeeded"] {
        let (queue, hand) = start().await;
        let audio = ended(&hand, "'tts'", with_artifact(), 2).await;
        prune(&queue).await;
        let clean_up: Uuid = hand
            .client
            .query_one("select cleanup_job_id from windlass.purge_wait", &[])
            .await
            .unwrap()
            .get(0);
        let fence = if clean_up_was == "queued" { None } else { Some(hand.claim_one().await) };
        if clean_up_was == "succeeded" {
            assert!(hand.settle(&fence.unwrap(), None).await);
        }
        assert_eq!(hand.retry(audio).await, "queued");
        assert_eq!(count(&hand.client, WAITS).await, 0, "it no longer waits for its deletion");
        if clean_up_was == "running" {
            assert!(hand.settle(&fence.unwrap(), None).await);
        }
        let expected = if clean_up_was == "succeeded" { "succeeded" } else { "canceled" };
        assert_eq!(
            status(&hand.client, clean_up).await,
            expected,
            "it would remove the output of the new run"
        );
        prune(&queue).await;
        assert_eq!(status(&hand.client, audio).await, "queued", "{clean_up_was}");
        let again = hand.claim_one().await;
        assert_eq!((again.job, again.attempt), (audio, 2));
        assert!(hand.settle(&again, with_artifact()).await);
        assert_counts_are_exact(&hand.client).await;
    }
}

/// A job whose clean-up is done, and a concurrent retry by the operator: the first one wins, and the other one detects it.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_and_the_deletion_after_a_clean_up_exclude_each_other() {
    for retry_is_first in [true, false] {
        let (queue, hand) = start().await;
        let audio = ended(&hand, "'tts'", with_artifact(), 2).await;
        prune(&queue).await;
        let fence = hand.claim_one().await;
        assert!(hand.settle(&fence, None).await);
        // As an earlier release left it: the deletion must not depend on the retry to remove the row.
        hand.client
            .batch_execute("create table public.waits as select * from windlass.purge_wait")
            .await
            .unwrap();
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let prune = "select windlass.prune(100)";
        let retry = "select result from windlass.retry($1, $2, 'tester')";
        if retry_is_first {
            open.execute(retry, &[&DEFAULT_TENANT, &audio]).await.unwrap();
            hand.client.execute(prune, &[]).await.unwrap();
            open.batch_execute("insert into windlass.purge_wait select * from public.waits; commit")
                .await
                .unwrap();
            hand.client.execute(prune, &[]).await.unwrap();
            assert_eq!(status(&hand.client, audio).await, "queued");
            assert_eq!(count(&hand.client, WAITS).await, 0, "it must no longer be deleted");
        } else {
            open.execute(prune, &[]).await.unwrap();
            let other = queue.client().await;
            let late = tokio::spawn(async move {
                other.query_one(retry, &[&DEFAULT_TENANT, &audio]).await.unwrap().get::<_, String>(0)
            });
            until_a_session_waits(&hand.client).await;
            open.batch_execute("commit").await.unwrap();
            assert_eq!(late.await.unwrap(), "missing");
            assert_eq!(status(&hand.client, audio).await, "missing");
        }
        assert_counts_are_exact(&hand.client).await;
    }
}

/// A failed dependency does not become a met one because retention deletes it.
#[tokio::test(flavor = "multi_thread")]
async fn retention_keeps_a_job_that_a_blocked_one_depends_on() {
    let (queue, hand) = start().await;
    let need = ended(&hand, "'held', ordering_key => 'k'", Some(ending::failed()), 2).await;
    let depends =
        hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[], if_unmet => 'wait'")).await;
    let ordered = hand.enqueue("'held', ordering_key => 'k'").await;
    prune(&queue).await;
    assert_eq!(statuses(&hand, &[need, depends, ordered]).await, ["failed", "blocked", "blocked"]);
    // Once no job depends on it any more it is deleted, though its rule has passed it.
    hand.cancel(depends).await;
    prune(&queue).await;
    assert_eq!(statuses(&hand, &[need, ordered]).await, ["failed", "blocked"]);
    hand.cancel(ordered).await;
    prune(&queue).await;
    assert_eq!(status(&hand.client, need).await, "missing");
    assert_eq!(count(&hand.client, "select count(*) from windlass.prune_passed").await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// An operator can still retry a kept job, and its dependents continue then.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_retention_kept_can_be_retried() {
    let (queue, hand) = start().await;
    let need = ended(&hand, "'held'", Some(ending::failed()), 2).await;
    let waits =
        hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[], if_unmet => 'wait'")).await;
    prune(&queue).await;
    assert_eq!(hand.retry(need).await, "queued");
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert_eq!(status(&hand.client, waits).await, "queued");
    assert_eq!(count(&hand.client, "select count(*) from windlass.prune_passed").await, 0);
}

/// A job starts to depend on another one while retention deletes that one.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_not_deleted_while_another_starts_to_depend_on_it() {
    for enqueue_is_first in [true, false] {
        let (queue, hand) = start().await;
        let need = ended(&hand, "'held'", Some(ending::failed()), 2).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let other = queue.client().await;
        let prune = "select windlass.prune(100)";
        let wait = format!(
            "select id from windlass.enqueue('held', depends_on => array['{need}']::uuid[], if_unmet => 'wait')"
        );
        if enqueue_is_first {
            let waits: Uuid = open.query_one(&wait, &[]).await.unwrap().get(0);
            // Skipped, without waiting: the transaction may stay open for long.
            other.execute(prune, &[]).await.unwrap();
            open.batch_execute("commit").await.unwrap();
            other.execute(prune, &[]).await.unwrap();
            assert_eq!(statuses(&hand, &[need, waits]).await, ["failed", "blocked"]);
        } else {
            open.execute(prune, &[]).await.unwrap();
            let enqueuing = tokio::spawn(async move { other.query_one(&wait, &[]).await });
            until_a_session_waits(&hand.client).await;
            open.batch_execute("commit").await.unwrap();
            let refused = enqueuing.await.unwrap().unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "WL008", "{refused:?}");
        }
        assert_counts_are_exact(&hand.client).await;
    }
}

/// An operator deletes a dependency of others: they are decided as if it had been canceled.
#[tokio::test(flavor = "multi_thread")]
async fn a_manual_purge_counts_as_a_cancel_for_dependents() {
    let (queue, hand) = start().await;
    let failed = ended(&hand, "'held'", Some(ending::failed()), 0).await;
    let queued = hand.enqueue("'held'").await;
    let mut seen = Vec::new();
    for need in [failed, queued] {
        let mut waiting = Vec::new();
        for policy in ["cancel", "run", "wait"] {
            let call = format!("'held', depends_on => array['{need}']::uuid[], if_unmet => '{policy}'");
            waiting.push(hand.enqueue(&call).await);
        }
        queue.purge(DEFAULT_TENANT, &[need]).await.unwrap();
        seen.push(statuses(&hand, &waiting).await);
    }
    assert_eq!(seen[0], ["canceled", "queued", "queued"]);
    assert_eq!(seen[1], ["canceled", "queued", "queued"]);
    assert_counts_are_exact(&hand.client).await;
}
