//! The operator's verbs: cancel, retry, purge.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::admin::{Actor, Reach};
use windlass::job::{Canceled, State, Unique};
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Definition, Done, Error, NewJob};
use windlass_testing::TestQueue;

use crate::support::{
    Hand, Held, assert_counts_are_exact, attempts, count, ending, everything, everything_unaudited, job,
    keeper, status, until, worker,
};

/// Invariant 40: once a cancel is acknowledged the job never starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_is_canceled_at_once_and_never_starts() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let queued = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let scheduled = queue.enqueue(&NewJob::new("held").delay(Duration::from_millis(300))).await.unwrap().id;
    let blocked = queue.enqueue(&NewJob::new("held").depends_on(scheduled)).await.unwrap();
    assert_eq!(blocked.state, Some(State::Blocked));
    for id in [queued, blocked.id, scheduled] {
        assert_eq!(queue.cancel(DEFAULT_TENANT, id).await.unwrap(), Canceled::Now);
        let row = job(&client, id).await;
        assert_eq!((&row["status"], &row["reason"]), (&json!("canceled"), &json!("canceled")));
        assert!(row["finished_at"].is_string() && row["started_at"].is_null());
        assert_eq!(queue.cancel(DEFAULT_TENANT, id).await.unwrap(), Canceled::AlreadyFinished);
    }
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let after = queue.enqueue(&NewJob::new("held").delay(Duration::from_millis(500))).await.unwrap().id;
    let run = desk.next().await;
    assert_eq!(run.job, after, "a canceled job started");
    run.succeed();
    let missing = queue.cancel(DEFAULT_TENANT, Uuid::new_v4()).await.unwrap_err();
    assert!(matches!(missing, Error::UnknownJob { .. }), "{missing}");
    worker.stop().await.unwrap();
    assert_counts_are_exact(&client).await;
}

/// Invariants 41 and 42: a running job is asked to stop; until it does it keeps its dedupe key, and it ends canceled even if its
/// handler succeeds. It is notified by NOTIFY although every slot of the worker is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_notified_of_its_cancel_and_always_ends_canceled() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("later")).await.unwrap();
    let (held, mut desk) = Held::new();
    let slow = worker(&queue).handler(held).concurrency(1).lease(Duration::from_secs(600));
    let worker = slow.heartbeat(Duration::from_secs(300)).start().await.unwrap();
    let new = NewJob::new("held").dedupe_key("only one");
    let id = queue.enqueue(&new).await.unwrap().id;
    let run = desk.next().await;
    assert_eq!(queue.cancel(DEFAULT_TENANT, id).await.unwrap(), Canceled::Requested);
    let row = job(&client, id).await;
    assert_eq!(row["status"], "running");
    assert!(row["cancel_requested_at"].is_string());
    let duplicate = queue.enqueue(&new).await.unwrap();
    assert_eq!((duplicate.id, duplicate.is_duplicate), (id, true), "it keeps its key until it has stopped");
    tokio::time::timeout(Duration::from_secs(20), run.stop.cancelled()).await.expect("it was not stopped");
    assert_eq!(queue.cancel(DEFAULT_TENANT, id).await.unwrap(), Canceled::Requested);

    run.end(Ok(Done::new().artifact(&"a").then(NewJob::new("later"))));
    let row = until(&client, id, "canceled").await;
    assert_eq!((&row["reason"], &row["artifact"]), (&json!("cancel_requested"), &Value::Null));
    assert_eq!(attempts(&client, id).await, ["canceled"]);
    assert_eq!(count(&client, "select count(*) from windlass.jobs where definition_key = 'later'").await, 0);
    assert_eq!(count(&client, "select count(*) from windlass.cancel_request").await, 0);
    assert!(!queue.enqueue(&new).await.unwrap().is_duplicate, "the key is free now");
    desk.next().await.succeed();
    worker.stop().await.unwrap();
    assert_counts_are_exact(&client).await;
}

/// Invariant 41: regardless of later events and of the process that ends the attempt, the job is not retried.
#[tokio::test(flavor = "multi_thread")]
async fn no_ending_after_a_cancel_request_runs_the_job_again() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let endings = [
        None,
        Some(ending::retry()),
        Some(ending::release()),
        Some(ending::snooze()),
        Some(ending::dead_letter()),
    ];
    for detail in endings {
        let id = hand.enqueue("'held'").await;
        let fence = hand.claim_one().await;
        assert_eq!(hand.cancel(id).await, "requested");
        assert!(hand.settle(&fence, detail).await);
        let row = job(&hand.client, id).await;
        assert_eq!((&row["status"], &row["reason"]), (&json!("canceled"), &json!("cancel_requested")));
        assert_eq!(attempts(&hand.client, id).await, ["canceled"]);
    }
    let id = hand.enqueue("'held'").await;
    hand.claim_one().await;
    assert_eq!(hand.cancel(id).await, "requested");
    hand.miss_heartbeats().await;
    assert_eq!(keeper(&queue).run_once(Duty::Reap).await.unwrap().moved, 1);
    assert_eq!(status(&hand.client, id).await, "canceled");
    assert_eq!(attempts(&hand.client, id).await, ["lost"]);
    assert_counts_are_exact(&hand.client).await;
}

/// Invariants 3, 4 and 13: a retry resets the attempts, the attempt numbers continue, and it is audited.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_retries_a_job_from_every_terminal_state() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held", "max_attempts": 1})).await;
    let endings = [
        ("succeeded", None),
        ("failed", Some(ending::failed())),
        ("dead_letter", Some(ending::dead_letter())),
        ("canceled", None),
    ];
    for (state, detail) in endings {
        let id = hand.enqueue("'held'").await;
        let not_yet = queue.retry(DEFAULT_TENANT, id, "ada").await.unwrap_err();
        assert!(matches!(not_yet, Error::NotFinished { .. }), "{not_yet}");
        let fence = hand.claim_one().await;
        if state == "canceled" {
            hand.cancel(id).await;
        }
        assert!(hand.settle(&fence, detail).await);
        assert_eq!(status(&hand.client, id).await, state);

        assert_eq!(queue.retry(DEFAULT_TENANT, id, "ada").await.unwrap(), State::Queued);
        let row = job(&hand.client, id).await;
        assert_eq!((&row["status"], &row["attempt_count"]), (&json!("queued"), &json!(1)));
        assert!(row["finished_at"].is_null());
        let budget = "select (failures + lost + snoozes)::integer from windlass.queued where job_id = $1";
        assert_eq!(hand.client.query_one(budget, &[&id]).await.unwrap().get::<_, i32>(0), 0);
        let again = hand.claim_one().await;
        assert_eq!(again.attempt, 2, "attempt numbers only increase");
        assert!(hand.settle(&again, None).await);
        assert_eq!(status(&hand.client, id).await, "succeeded");
        assert_eq!(attempts(&hand.client, id).await.len(), 2);
        let audited = "select actor, action, before ->> 'status', after ->> 'status' from windlass.audit
            where tenant_id = $1 and target = $2 and action = 'job.retry'";
        let audited = hand.client.query_one(audited, &[&DEFAULT_TENANT, &id.to_string()]).await.unwrap();
        let actor = audited.get::<_, &str>(0);
        assert!(actor.starts_with("login:") && actor.ends_with(" as ada"), "{actor}");
        assert_eq!(audited.get::<_, &str>(1), "job.retry");
        assert_eq!((audited.get::<_, &str>(2), audited.get::<_, &str>(3)), (state, "queued"));
    }
    let missing = queue.retry(DEFAULT_TENANT, Uuid::new_v4(), "ada").await.unwrap_err();
    assert!(matches!(missing, Error::UnknownJob { .. }), "{missing}");
    assert_counts_are_exact(&hand.client).await;
}

/// A job canceled before it ever ran can be retried, canceled again and retried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_never_ran_can_be_retried_too() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand.enqueue("'held'").await;
    for _ in 0..2 {
        assert_eq!(hand.cancel(id).await, "canceled");
        assert_eq!(hand.retry(id).await, "queued");
    }
    let fence = hand.claim_one().await;
    assert_eq!(fence.attempt, 1);
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    assert_eq!(hand.retry(id).await, "queued");
    assert_eq!(hand.cancel(id).await, "canceled");
    assert_eq!(hand.retry(id).await, "queued");
    assert_eq!(hand.claim_one().await.attempt, 2);
    assert_counts_are_exact(&hand.client).await;
}

/// Invariant 22.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_rejected_while_another_job_holds_its_key() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let new = NewJob::new("held").dedupe_key("k");
    let first = queue.enqueue(&new).await.unwrap().id;
    queue.cancel(DEFAULT_TENANT, first).await.unwrap();
    let second = queue.enqueue(&new).await.unwrap();
    assert!(!second.is_duplicate);
    let before = everything(&client).await;
    let error = queue.retry(DEFAULT_TENANT, first, "ada").await.unwrap_err();
    assert!(matches!(error, Error::DedupeSlotTaken { holder, .. } if holder == second.id), "{error}");
    assert_eq!(everything(&client).await, before, "a rejected retry changes nothing");
    queue.cancel(DEFAULT_TENANT, second.id).await.unwrap();
    assert_eq!(queue.retry(DEFAULT_TENANT, first, "ada").await.unwrap(), State::Queued);
    let third = queue.enqueue(&new).await.unwrap();
    assert_eq!((third.id, third.is_duplicate), (first, true), "the retried job holds its key again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_unique_forever_can_be_retried_by_its_own_key() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").uniqueness(Unique::Forever)).await.unwrap();
    let new = NewJob::new("held").dedupe_key("post 1");
    let id = queue.enqueue(&new).await.unwrap().id;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert!(queue.enqueue(&new).await.unwrap().is_duplicate);
    assert_eq!(hand.retry(id).await, "queued");
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert!(queue.enqueue(&new).await.unwrap().is_duplicate, "forever outlives the retry");
}

/// Invariant 5: a purge removes the job from its run.
#[tokio::test(flavor = "multi_thread")]
async fn a_purged_running_job_loses_its_lease_and_leaves_no_row() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let empty = everything_unaudited(&hand.client).await;
    let id = hand.enqueue("'held', dedupe_key => 'k', deadline => now() + interval '1 day'").await;
    let fence = hand.claim_one().await;
    assert!(hand.progress(&fence).await);
    hand.cancel(id).await;
    assert_eq!(queue.purge(DEFAULT_TENANT, &[id, Uuid::new_v4()]).await.unwrap(), 1);
    assert!(!hand.settle(&fence, None).await);
    assert!(!hand.progress(&fence).await);
    assert_counts_are_exact(&hand.client).await;
    hand.client.batch_execute("delete from windlass.tally; delete from windlass.lane").await.unwrap();
    assert_eq!(everything_unaudited(&hand.client).await, empty);
}

#[tokio::test(flavor = "multi_thread")]
async fn purging_a_subject_deletes_only_its_jobs_in_every_state() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let finished = hand.enqueue("'held', subject_type => 'post', subject_id => '1'").await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let running = hand.enqueue("'held', subject_type => 'post', subject_id => '1'").await;
    hand.claim_one().await;
    let queued = hand.enqueue("'held', subject_type => 'post', subject_id => '1'").await;
    let scheduled = hand.enqueue("'held', subject_type => 'post', subject_id => '1', delay => '1 h'").await;
    let other = hand.enqueue("'held', subject_type => 'post', subject_id => '2'").await;
    let neighbour = queue.tenant("neighbour").await;
    let theirs = NewJob::new("held").tenant(neighbour).subject("post", "1");
    let theirs = queue.enqueue(&theirs).await.unwrap().id;
    assert_eq!(queue.purge_subject(DEFAULT_TENANT, "post", "1").await.unwrap(), 4);
    for deleted in [finished, running, queued, scheduled] {
        assert_eq!(status(&hand.client, deleted).await, "missing");
    }
    for kept in [other, theirs] {
        assert_eq!(status(&hand.client, kept).await, "queued");
    }
    assert_counts_are_exact(&hand.client).await;
}

/// Invariant 44: no row of the tenant is left, and no row of another is changed.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_tenant_can_be_interrupted_and_continued() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let tenant = queue.tenant("leaving").await;
    let kept = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let jobs: Vec<_> = (0..30).map(|_| NewJob::new("held").tenant(tenant)).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let keyed = NewJob::new("held").tenant(tenant).dedupe_key("k").idempotency_key("i").ordering_key("o");
    queue.enqueue(&keyed.delay(Duration::from_secs(60))).await.unwrap();

    let step = "select purged, done from windlass.purge_tenant($1, 10)";
    let row = client.query_one(step, &[&tenant]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (10, false));
    let refused = windlass::enqueue_in(&client, &NewJob::new("held").tenant(tenant)).await.unwrap_err();
    assert!(matches!(refused, Error::TenantRefused { .. }), "{refused}");

    let mut steps = Vec::new();
    assert_eq!(queue.delete_tenant(tenant, |deleted| steps.push(deleted)).await.unwrap(), 21);
    assert_eq!((steps.first(), steps.last()), (Some(&21), Some(&21)));
    assert_eq!(status(&client, kept).await, "queued");
    assert!(
        !everything_unaudited(&client).await.contains(&tenant.to_string()),
        "a row of the tenant is left"
    );
    let default = queue.delete_tenant(DEFAULT_TENANT, |_| ()).await.unwrap_err();
    assert!(matches!(default, Error::TenantRefused { .. }), "{default}");
    assert_counts_are_exact(&client).await;
}

/// Routes are cached for a few seconds, so every entry point checks the tenant itself; and one that checked before the tenant was
/// marked, and has not committed, is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_added_to_a_tenant_that_is_being_deleted() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let tenant = queue.tenant("leaving").await;
    let new = NewJob::new("held").tenant(tenant);
    queue.enqueue(&new).await.unwrap(); // and its route is cached now
    let mut late = queue.client().await;
    let in_progress = late.transaction().await.unwrap();
    windlass::enqueue_in(&in_progress, &new).await.unwrap();

    let step = async || {
        let row = client
            .query_one("select purged, done from windlass.purge_tenant($1, 10)", &[&tenant])
            .await
            .unwrap();
        (row.get::<_, i32>(0), row.get::<_, bool>(1))
    };
    assert_eq!(step().await, (1, false));
    let many = vec![new.clone(); 3];
    let mixed = [new.clone(), new.clone().tag("x")];
    let copied = vec![new.clone(); 5000];
    let refused = [
        queue.enqueue(&new).await.map(|_| ()),
        queue.enqueue(&new.clone().tag("x")).await.map(|_| ()),
        queue.enqueue(&new.clone().dedupe_key("k")).await.map(|_| ()),
        queue.enqueue_many(&many).await.map(|_| ()),
        queue.enqueue_many(&mixed).await.map(|_| ()),
        queue.enqueue_many(&copied).await.map(|_| ()),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::TenantRefused { .. })), "{refused:?}");
    }
    for _ in 0..3 {
        assert_eq!(step().await, (0, false), "a caller that checked before may still commit");
    }
    in_progress.commit().await.unwrap();
    assert_eq!(queue.delete_tenant(tenant, |_| ()).await.unwrap(), 1);
    assert!(
        !everything_unaudited(&client).await.contains(&tenant.to_string()),
        "a row of the tenant is left"
    );
    let rejected = queue.enqueue(&new).await;
    assert!(matches!(rejected, Err(Error::TenantRefused { .. })), "{rejected:?}");

    // Once its lanes can no longer be cached, the check ends.
    let looks = async || count(&client, "select last_value from windlass.tenants_watched").await;
    keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
    assert_eq!(looks().await, 1);
    let later =
        "update windlass.keeper_mark set reached = now() - interval '2 min' where duty = 'tenant deleted'";
    client.batch_execute(later).await.unwrap();
    keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
    assert_eq!(looks().await, 0);
}

/// a second request to cancel a running job changes nothing, whoever sends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_cancel_of_a_running_job_has_the_same_result_and_is_not_recorded() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand.enqueue("'held'").await;
    hand.claim_one().await;
    for _ in 0..3 {
        assert_eq!(hand.cancel(id).await, "requested");
    }
    let many = "select windlass.cancel_many($1, array[$2::uuid], null)";
    let changed: i64 = hand.client.query_one(many, &[&DEFAULT_TENANT, &id]).await.unwrap().get(0);
    assert_eq!(changed, 1, "requested to stop, now or before");
    let recorded = "select count(*) from windlass.audit where action like 'job.cancel%'";
    assert_eq!(count(&hand.client, recorded).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_a_purge_names_the_jobs_that_were_deleted() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let (id, missing) = (hand.enqueue("'held'").await, Uuid::now_v7());
    let purge = "select windlass.purge($1, array[$2::uuid, $3::uuid])";
    let purged: i32 = hand.client.query_one(purge, &[&DEFAULT_TENANT, &missing, &id]).await.unwrap().get(0);
    assert_eq!(purged, 1);
    let recorded = "select after -> 'ids' from windlass.audit where action = 'job.delete_many'";
    let ids: Value = hand.client.query_one(recorded, &[]).await.unwrap().get(0);
    assert_eq!(ids, json!([id]));
}

/// Decision 0019: a call that changes nothing succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_cancels_an_ended_job_can_be_committed() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    for expected in [Canceled::Now, Canceled::AlreadyFinished] {
        let acting = queue.act(Reach::Tenant(DEFAULT_TENANT), &Actor::new("tester")).await.unwrap();
        assert_eq!(acting.cancel(id).await.unwrap(), expected);
        acting.commit().await.unwrap();
    }
    let recorded = "select count(*) from windlass.audit where action = 'job.cancel'";
    assert_eq!(count(&queue.client().await, recorded).await, 1);
}
