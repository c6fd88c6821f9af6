//! Invariant 38: what happens when the previous job has not ended.

use jiff::SignedDuration;
use serde_json::json;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass::schedule::{Overlap, Trigger};
use windlass_testing::{
    TestQueue, eventually, until_a_session_waits, until_waits_or_ends, waiting_for_locks,
};

use super::{create, define, every_minute, fire_all, fires, look_back, outcomes};
use crate::support::{Hand, keeper, status};

/// One more instant is due, and is processed.
async fn pass_a_minute(queue: &TestQueue, hand: &Hand, trigger: &Trigger, minutes_ago: i64) -> Option<Uuid> {
    let before = fires(queue, trigger).await.len();
    look_back(&hand.client, trigger, SignedDuration::from_mins(minutes_ago)).await;
    let ends =
        "update windlass.job_triggers set ends_at = next_due_at, misfire_grace_seconds = 86400 where id = $1";
    hand.client.execute(ends, &[&trigger.id]).await.unwrap();
    fire_all(&keeper(queue)).await;
    let seen = fires(queue, trigger).await;
    assert_eq!(seen.len(), before + 1);
    seen[before].job_id
}

async fn with(overlap: Overlap) -> (TestQueue, Hand, Trigger) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute().overlap(overlap)).await;
    (queue, hand, trigger)
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_omits_an_instant_while_a_job_has_not_ended() {
    let (queue, hand, trigger) = with(Overlap::Skip).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    assert_eq!(pass_a_minute(&queue, &hand, &trigger, 49).await, None, "it is queued");
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, first);
    assert_eq!(pass_a_minute(&queue, &hand, &trigger, 48).await, None, "it runs");
    assert!(hand.settle(&fence, None).await);
    assert!(pass_a_minute(&queue, &hand, &trigger, 47).await.is_some(), "it has ended");
    let seen = outcomes(&fires(&queue, &trigger).await);
    assert_eq!(seen, ["fired", "skipped overlap", "skipped overlap", "fired"]);
    let run = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    assert_eq!((run.outcome.as_str(), run.reason.as_deref()), ("skipped", Some("overlap")));
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_one_lets_one_job_wait_for_the_running_one() {
    let (queue, hand, trigger) = with(Overlap::QueueOne).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    assert_eq!(pass_a_minute(&queue, &hand, &trigger, 49).await, None, "the first itself still waits");
    let fence = hand.claim_one().await;
    let second = pass_a_minute(&queue, &hand, &trigger, 48).await.unwrap();
    assert_eq!(status(&hand.client, second).await, "blocked", "never two at once");
    assert_eq!(pass_a_minute(&queue, &hand, &trigger, 47).await, None);
    assert!(hand.settle(&fence, Some(crate::support::ending::failed())).await);
    assert_eq!(status(&hand.client, first).await, "failed");
    assert_eq!(status(&hand.client, second).await, "queued", "however the first ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_running_stops_the_previous_job_and_starts_the_next() {
    let (queue, hand, trigger) = with(Overlap::CancelRunning).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let second = pass_a_minute(&queue, &hand, &trigger, 49).await.unwrap();
    assert_eq!(status(&hand.client, first).await, "canceled", "it had not started");
    let fence = hand.claim_one().await;
    let third = pass_a_minute(&queue, &hand, &trigger, 48).await.unwrap();
    assert_eq!(status(&hand.client, second).await, "running", "asked to stop");
    assert_eq!(status(&hand.client, third).await, "blocked");
    assert!(
        hand.settle(&fence, Some(json!({"outcome": 4, "next": 4, "failures": 0, "lost": 0, "snoozes": 0})))
            .await
    );
    assert_eq!(status(&hand.client, second).await, "canceled");
    assert_eq!(status(&hand.client, third).await, "queued");
}

/// A trigger that may overlap is not tracked; when that changes, its earlier jobs count.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_applies_to_existing_jobs() {
    let (queue, hand, trigger) = with(Overlap::Allow).await;
    pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    pass_a_minute(&queue, &hand, &trigger, 49).await.unwrap();
    let skip = super::changes(json!({"overlap": "skip", "ends_at": null}));
    let trigger = queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &skip, "tester").await.unwrap();
    assert_eq!(pass_a_minute(&queue, &hand, &trigger, 48).await, None);
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    assert!(pass_a_minute(&queue, &hand, &trigger, 47).await.is_some());
}

/// Two jobs of a trigger have ended, and the first one is retried.
async fn with_a_retried_job(overlap: Overlap) -> (TestQueue, Hand, Trigger, Uuid) {
    let (queue, hand, trigger) = with(overlap).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(crate::support::ending::failed())).await);
    pass_a_minute(&queue, &hand, &trigger, 49).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert_eq!(hand.retry(first).await, "queued");
    (queue, hand, trigger, first)
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_counts_as_not_ended() {
    let (queue, hand, trigger, _) = with_a_retried_job(Overlap::Skip).await;
    assert_eq!(pass_a_minute(&queue, &hand, &trigger, 48).await, None);
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert!(pass_a_minute(&queue, &hand, &trigger, 47).await.is_some());

    let (queue, hand, trigger, _) = with_a_retried_job(Overlap::QueueOne).await;
    let fence = hand.claim_one().await;
    let next = pass_a_minute(&queue, &hand, &trigger, 48).await.unwrap();
    assert_eq!(status(&hand.client, next).await, "blocked", "it waits for the retried one");
    assert!(hand.settle(&fence, None).await);

    let (queue, hand, trigger, first) = with_a_retried_job(Overlap::CancelRunning).await;
    pass_a_minute(&queue, &hand, &trigger, 48).await.unwrap();
    assert_eq!(status(&hand.client, first).await, "canceled");
    let many = "select windlass.retry_many($1, array[$2::uuid], '{}', 'tester')";
    let retried: i64 = hand.client.query_one(many, &[&DEFAULT_TENANT, &first]).await.unwrap().get(0);
    assert_eq!(retried, 1);
    pass_a_minute(&queue, &hand, &trigger, 47).await.unwrap();
    assert_eq!(status(&hand.client, first).await, "canceled", "after a retry of many too");
}

/// whether the earlier job has ended is open until the retry commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_does_not_fire_beside_an_open_retry_of_its_job() {
    let (queue, hand, trigger) = with(Overlap::Skip).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    hand.client.batch_execute("update windlass.job_triggers set ends_at = null").await.unwrap();
    look_back(&hand.client, &trigger, SignedDuration::from_mins(5)).await;
    hand.client.batch_execute("begin").await.unwrap();
    assert_eq!(hand.retry(first).await, "queued");
    let moved = keeper(&queue).run_once(Duty::Schedule).await.unwrap().moved;
    assert_eq!((moved, fires(&queue, &trigger).await.len()), (0, 1), "it is left for the next round");
    hand.client.batch_execute("commit").await.unwrap();
    let run = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    assert_eq!((run.outcome.as_str(), run.reason.as_deref()), ("skipped", Some("overlap")));
}

/// the running job is deleted while the next one is about to wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_instant_is_fired_although_the_running_job_is_purged_meanwhile() {
    for overlap in [Overlap::QueueOne, Overlap::CancelRunning, Overlap::Skip] {
        let (queue, hand, trigger) = with(overlap).await;
        let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
        assert_eq!(hand.claim_one().await.job, first);
        hand.client.batch_execute("begin").await.unwrap();
        let purge = "select windlass.purge($1, array[$2::uuid])";
        hand.client.execute(purge, &[&DEFAULT_TENANT, &first]).await.unwrap();
        let running = queue.queue().clone();
        let run = tokio::spawn(async move {
            running.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap()
        });
        until_waits_or_ends(&queue.client().await, &run).await;
        hand.client.batch_execute("commit").await.unwrap();
        let run = run.await.unwrap();
        let expected = match overlap {
            Overlap::Skip => ("skipped", Some("overlap")), // it did not have to wait, and the job was running then
            _ => ("fired", None),
        };
        assert_eq!((run.outcome.as_str(), run.reason.as_deref()), expected, "{overlap:?}");
    }
}

/// the run locks the running job to cancel it, and then the quota; a settlement with a next job locks the quota first.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cancels_the_previous_job_does_not_deadlock_with_its_end_under_a_quota() {
    let (queue, hand, trigger) = with(Overlap::CancelRunning).await;
    pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let fence = hand.claim_one().await;
    hand.client.batch_execute("update windlass.tenants set max_queued = 1000").await.unwrap();
    let open = queue.client().await;
    open.batch_execute("begin; select windlass.enqueue('held')").await.unwrap();
    let settling = Hand { client: queue.client().await, worker: hand.worker };
    let next = json!({"outcome": 1, "next": 1, "chain": [{"definition_key": "held"}]});
    let settled = tokio::spawn(async move { settling.settle(&fence, Some(next)).await });
    until_a_session_waits(&hand.client).await;
    let client = queue.client().await;
    let run = tokio::spawn(async move {
        let run = "select outcome from windlass.run_trigger($1, $2, $3, null, array[windlass.uuid7()], 'held', array['{}'::jsonb])";
        client.query_one(run, &[&DEFAULT_TENANT, &trigger.id, &trigger.generation]).await
    });
    eventually("both wait", async || waiting_for_locks(&hand.client).await == 2).await;
    open.batch_execute("commit").await.unwrap();
    assert!(settled.await.unwrap());
    assert_eq!(run.await.unwrap().unwrap().get::<_, &str>(0), "fired");
}

/// the retry sees that jobs may overlap, and an edit ends that before the retry commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_counts_after_an_edit_that_ends_allow() {
    let (queue, hand, trigger) = with(Overlap::Allow).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    hand.client.batch_execute("begin").await.unwrap();
    assert_eq!(hand.retry(first).await, "queued");
    let editing = queue.queue().clone();
    let edit = tokio::spawn(async move {
        let skip = super::changes(json!({"overlap": "skip"}));
        editing.update_trigger(DEFAULT_TENANT, trigger.id, None, &skip, "tester").await.unwrap()
    });
    until_waits_or_ends(&queue.client().await, &edit).await;
    let run = async || queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    // If the edit did not wait, this run finds the job ended.
    let second = if edit.is_finished() { run().await.job_id } else { None };
    hand.client.batch_execute("commit").await.unwrap();
    edit.await.unwrap();
    if let Some(second) = second {
        hand.cancel(second).await;
    }
    let run = run().await;
    assert_eq!((run.outcome.as_str(), run.reason.as_deref()), ("skipped", Some("overlap")));
}

/// the same with a snapshot from before the edit.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_an_old_snapshot_counts_after_an_edit_that_ends_allow() {
    let (queue, hand, trigger) = with(Overlap::Allow).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let old = queue.client().await;
    old.batch_execute("begin isolation level repeatable read; select from windlass.job_triggers")
        .await
        .unwrap();
    let skip = super::changes(json!({"overlap": "skip"}));
    queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &skip, "tester").await.unwrap();
    let second = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap().job_id.unwrap();
    assert_eq!(hand.cancel(second).await, "canceled");
    let retried = old.query_one("select windlass.retry($1, $2, 'tester')", &[&DEFAULT_TENANT, &first]).await;
    let is_retried = retried.is_ok() && old.batch_execute("commit").await.is_ok();
    let run = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    let expected = if is_retried { ("skipped", Some("overlap")) } else { ("fired", None) };
    assert_eq!((run.outcome.as_str(), run.reason.as_deref()), expected);
}

/// the edit locks the trigger, and must see what others have fired until then.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_with_an_old_snapshot_is_refused() {
    let (queue, hand, trigger) = with(Overlap::Allow).await;
    for level in ["repeatable read", "serializable"] {
        let begin = format!("begin isolation level {level}");
        hand.client.batch_execute(&begin).await.unwrap();
        let edit = "select windlass.update_trigger($1, $2, 1, '{}', false, null, null, 'edited')";
        let error = hand.client.query_one(edit, &[&DEFAULT_TENANT, &trigger.id]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "WL021", "{level}");
        hand.client.batch_execute("rollback").await.unwrap();
    }
    drop(queue);
}

/// the blocks of the jobs that it cancels are locked in the order of every cancel.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cancels_jobs_does_not_deadlock_with_a_cancel_of_many() {
    let (queue, hand, trigger) = with(Overlap::Allow).await;
    let first = pass_a_minute(&queue, &hand, &trigger, 50).await.unwrap();
    let second = pass_a_minute(&queue, &hand, &trigger, 49).await.unwrap();
    // The block of the first one comes after that of the second one.
    for fence in hand.claim_all().await {
        assert!(fence.job != first || hand.settle(&fence, None).await);
    }
    assert_eq!(hand.retry(first).await, "queued");
    assert_eq!(hand.claim_one().await.job, first);
    let cancel_running = super::changes(json!({"overlap": "cancel_running"}));
    let trigger =
        queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &cancel_running, "tester").await.unwrap();
    let open = queue.client().await;
    open.batch_execute("begin").await.unwrap();
    open.execute("select windlass.cancel($1, $2)", &[&DEFAULT_TENANT, &second]).await.unwrap();
    let many = queue.client().await;
    let many = tokio::spawn(async move {
        let cancel = "select windlass.cancel_many($1, array[$2::uuid, $3::uuid], null)";
        many.query_one(cancel, &[&DEFAULT_TENANT, &first, &second]).await.map(|_| ())
    });
    until_a_session_waits(&hand.client).await;
    let running = queue.client().await;
    let run = tokio::spawn(async move {
        let run = "select outcome from windlass.run_trigger($1, $2, $3, null, array[windlass.uuid7()], 'held', array['{}'::jsonb])";
        running.query_one(run, &[&DEFAULT_TENANT, &trigger.id, &trigger.generation]).await.map(|_| ())
    });
    eventually("both wait", async || waiting_for_locks(&hand.client).await == 2).await;
    open.batch_execute("commit").await.unwrap();
    many.await.unwrap().unwrap();
    run.await.unwrap().unwrap();
}
