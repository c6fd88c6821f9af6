//! One job per key: dedupe and idempotency, under races.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use windlass::job::{State, Unique};
use windlass::{DEFAULT_TENANT, Definition, Error, NewJob};
use windlass_testing::{TestQueue, eventually, until_a_session_waits};

use crate::support::{Hand, assert_counts_are_exact, count};

async fn start(unique: Unique) -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").uniqueness(unique)).await.unwrap();
    (queue, hand)
}

/// Invariants 22 and 24.
#[tokio::test(flavor = "multi_thread")]
async fn an_active_key_is_held_until_its_job_ends() {
    let (queue, hand) = start(Unique::Active).await;
    let new = NewJob::new("held").dedupe_key("k");
    let first = queue.enqueue(&new).await.unwrap();
    assert!(!first.is_duplicate);
    let duplicate = queue.enqueue(&new.clone().payload(&json!({"other": true}))).await.unwrap();
    assert_eq!(
        (duplicate.id, duplicate.is_duplicate, duplicate.state),
        (first.id, true, Some(State::Queued))
    );
    let fence = hand.claim_one().await;
    let running = queue.enqueue(&new).await.unwrap();
    assert_eq!((running.id, running.state), (first.id, Some(State::Running)));
    assert!(hand.settle(&fence, Some(crate::support::ending::retry())).await);
    let scheduled = queue.enqueue(&new).await.unwrap();
    assert_eq!((scheduled.id, scheduled.state), (first.id, Some(State::Scheduled)), "a retry keeps the key");
    hand.cancel(first.id).await;
    let second = queue.enqueue(&new).await.unwrap();
    assert!(!second.is_duplicate && second.id != first.id);

    let neighbour = NewJob::new("held").dedupe_key("k").tenant(queue.tenant("neighbour").await);
    assert!(!queue.enqueue(&neighbour).await.unwrap().is_duplicate, "keys belong to their tenant");
    assert_counts_are_exact(&hand.client).await;
}

/// Invariant 23: whatever happened to the job, and by the database's clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_is_held_for_its_time_regardless_of_the_job() {
    let (queue, hand) = start(Unique::Window(Duration::from_millis(700))).await;
    let new = NewJob::new("held").dedupe_key("k");
    let first = queue.enqueue(&new).await.unwrap().id;
    hand.cancel(first).await;
    assert_eq!(queue.enqueue(&new).await.unwrap().id, first);
    eventually("the window is over", async || !queue.enqueue(&new).await.unwrap().is_duplicate).await;
    let apart = "select min(d)::float8 from (select extract(epoch from created_at - lag(created_at) over (order by created_at)) as d
        from windlass.job) x";
    let apart: f64 = hand.client.query_one(apart, &[]).await.unwrap().get(0);
    assert!(apart >= 0.7, "accepted after {apart} s");
    assert_eq!(count(&hand.client, "select count(*) from windlass.job").await, 2);
}

/// A-314, invariant 22: the retried job would be active without its key, and another one could take the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_rejected_while_the_window_of_another_job_holds_its_key() {
    let (queue, hand) = start(Unique::Active).await;
    let active = NewJob::new("held").dedupe_key("k");
    let first = queue.enqueue(&active).await.unwrap().id;
    hand.cancel(first).await;
    let window = active.clone().unique(Unique::Window(Duration::from_secs(3600)));
    let second = queue.enqueue(&window).await.unwrap().id;
    hand.cancel(second).await;
    let error = queue.retry(DEFAULT_TENANT, first, "ada").await.unwrap_err();
    assert!(matches!(error, Error::DedupeSlotTaken { holder, .. } if holder == second), "{error}");
    let many = "select windlass.retry_many($1, array[$2::uuid], '{}', 'tester')";
    let retried: i64 = hand.client.query_one(many, &[&DEFAULT_TENANT, &first]).await.unwrap().get(0);
    assert_eq!(retried, 0);
    assert_eq!(hand.retry(second).await, "queued", "the holder of the window can be retried");
    hand.cancel(second).await;
    hand.client.batch_execute("update windlass.dedupe set until = clock_timestamp()").await.unwrap();
    assert_eq!(hand.retry(first).await, "queued", "the window is over");
    let third = queue.enqueue(&active).await.unwrap();
    assert_eq!((third.id, third.is_duplicate), (first, true), "the retried job holds its key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_forever_is_held_after_the_end_and_a_job_may_choose_its_own_policy() {
    let (queue, hand) = start(Unique::Forever).await;
    let new = NewJob::new("held").dedupe_key("post 1");
    let first = queue.enqueue(&new).await.unwrap().id;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let again = queue.enqueue(&new).await.unwrap();
    assert_eq!((again.id, again.is_duplicate, again.state), (first, true, Some(State::Succeeded)));
    queue.purge(DEFAULT_TENANT, &[first]).await.unwrap();
    assert!(!queue.enqueue(&new).await.unwrap().is_duplicate, "a purge releases it");

    let active = NewJob::new("held").dedupe_key("post 2").unique(Unique::Active);
    let id = queue.enqueue(&active).await.unwrap().id;
    hand.cancel(id).await;
    assert!(!queue.enqueue(&active).await.unwrap().is_duplicate);
}

/// Invariants 22 and 24: sixteen transactions with one key, half of which roll back.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_concurrent_enqueues_with_one_key_all_get_one_id() {
    let (queue, hand) = start(Unique::Active).await;
    for round in 0..5 {
        let mut racers = Vec::new();
        for racer in 0..16 {
            let mut client = queue.client().await;
            racers.push(tokio::spawn(async move {
                let transaction = client.transaction().await.unwrap();
                let new = NewJob::new("held").dedupe_key(format!("round {round}"));
                let result = windlass::enqueue_in(&transaction, &new).await.unwrap();
                if racer % 2 == 0 {
                    transaction.rollback().await.unwrap();
                    return None;
                }
                transaction.commit().await.unwrap();
                Some(result)
            }));
        }
        let mut kept = Vec::new();
        for racer in racers {
            kept.extend(racer.await.unwrap());
        }
        let key = format!("round {round}");
        let rows = "select id from windlass.jobs where dedupe_key = $1";
        let rows = hand.client.query(rows, &[&key]).await.unwrap();
        assert_eq!(rows.len(), 1, "exactly one row");
        let id: Uuid = rows[0].get(0);
        assert!(kept.iter().all(|result| result.id == id), "an acknowledged id is not the row's");
        assert_eq!(kept.iter().filter(|result| !result.is_duplicate).count(), 1);
    }
    assert_counts_are_exact(&hand.client).await;
}

/// Invariant 24: the conflicting transaction rolled back, so ours is inserted.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_is_inserted_if_its_rival_rolls_back() {
    let (queue, hand) = start(Unique::Active).await;
    let mut rival = queue.client().await;
    let transaction = rival.transaction().await.unwrap();
    let new = NewJob::new("held").dedupe_key("k").idempotency_key("i");
    let theirs = windlass::enqueue_in(&transaction, &new).await.unwrap();
    let ours = tokio::spawn({
        let queue = queue.queue().clone();
        let new = new.clone();
        async move { queue.enqueue(&new).await.unwrap() }
    });
    until_a_session_waits(&hand.client).await;
    transaction.rollback().await.unwrap();
    let ours = ours.await.unwrap();
    assert!(!ours.is_duplicate && ours.id != theirs.id);
    assert_eq!(count(&hand.client, "select count(*) from windlass.job").await, 1);
}

/// Invariant 21.
#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_repeats_the_same_request_and_rejects_another() {
    let (queue, hand) = start(Unique::Active).await;
    let new = NewJob::new("held").payload(&json!({"a": 1, "b": 2})).idempotency_key("request 1");
    let first = queue.enqueue(&new).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let again = queue.enqueue(&new.clone().payload_json(r#"{"b": 2, "a": 1}"#)).await.unwrap();
    assert_eq!((again.id, again.is_duplicate, again.state), (first.id, true, Some(State::Succeeded)));
    let others = [
        new.clone().payload(&json!({"a": 1})),
        new.clone().dedupe_key("x"),
        new.clone().ordering_key("x"),
        new.clone().queue("elsewhere"),
        new.clone().priority(7),
        new.clone().subject("post", "1"),
        new.clone().tag("red"),
        new.clone().max_attempts(9),
        new.clone().delay(Duration::from_secs(60)),
        new.clone().scheduled_for("2999-01-01T00:00:00Z".parse().unwrap()),
        new.clone().deadline("2999-01-01T00:00:00Z".parse().unwrap()),
        new.clone().unique(Unique::Forever),
        new.clone().depends_on(first.id),
    ];
    for other in others {
        let error = queue.enqueue(&other).await.unwrap_err();
        let Error::IdempotencyConflict { existing } = &error else { panic!("{error}") };
        assert_eq!(*existing, first.id.to_string());
    }
    let keyed = |job: NewJob| job.idempotency_key("request 2");
    queue.enqueue(&keyed(NewJob::new("held").dedupe_key("x"))).await.unwrap();
    let error = queue.enqueue(&keyed(NewJob::new("held").ordering_key("x"))).await.unwrap_err();
    assert!(matches!(error, Error::IdempotencyConflict { .. }), "{error}");
    assert_eq!(count(&hand.client, "select count(*) from windlass.job").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_by_dedupe_key_remembers_its_request_too() {
    let (queue, _hand) = start(Unique::Active).await;
    let first = queue.enqueue(&NewJob::new("held").dedupe_key("k")).await.unwrap();
    let new = NewJob::new("held").dedupe_key("k").idempotency_key("i");
    assert_eq!(queue.enqueue(&new).await.unwrap().id, first.id);
    queue.cancel(DEFAULT_TENANT, first.id).await.unwrap();
    let again = queue.enqueue(&new).await.unwrap();
    assert_eq!(
        (again.id, again.is_duplicate),
        (first.id, true),
        "the response to the request does not change"
    );
}

/// Batches of Rust and of SQL in opposite orders lock the keys in the same order, so none is aborted.
#[tokio::test(flavor = "multi_thread")]
async fn batches_in_opposite_key_order_do_not_deadlock() {
    let (database, hand) = start(Unique::Active).await;
    for round in 0..4 {
        let mut tasks = Vec::new();
        for batch in 0..6 {
            let queue = database.queue().clone();
            let client = if batch % 3 == 0 { Some(database.client().await) } else { None };
            tasks.push(tokio::spawn(async move {
                let mut keys: Vec<String> = (0..40).map(|n| format!("{round} {}{n}", if n % 3 == 0 { "B" } else { "a" })).collect();
                if batch % 2 == 0 {
                    keys.reverse();
                }
                match client {
                    None => {
                        let jobs: Vec<_> = keys.iter().map(|key| NewJob::new("held").dedupe_key(key)).collect();
                        queue.enqueue_many(&jobs).await.unwrap().len()
                    }
                    Some(client) => {
                        let each: Vec<_> = keys.iter().map(|key| json!({"dedupe_key": key})).collect();
                        let many = "select * from windlass.enqueue_many('held', array_fill('{}'::jsonb, array[40]), each => $1)";
                        client.query(many, &[&each]).await.unwrap().len()
                    }
                }
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), 40);
        }
        assert_eq!(count(&hand.client, "select count(*) from windlass.job").await, 40 * (round + 1));
    }
}

/// A key that is free or held when a batch starts may be taken or free when it gets there.
#[tokio::test(flavor = "multi_thread")]
async fn batches_whose_keys_are_taken_and_expire_meanwhile_do_not_deadlock() {
    let (queue, _hand) = start(Unique::Window(Duration::from_millis(10))).await;
    let mut tasks = Vec::new();
    for batch in 0..6_usize {
        let client = queue.client().await;
        tasks.push(tokio::spawn(async move {
            for round in 0..15_usize {
                let key = |n: usize| json!({"dedupe_key": format!("k{}", (n * (batch + 1) + round) % 11)});
                let each: Vec<_> = (0..20).map(key).collect();
                let many = "select * from windlass.enqueue_many('held', array_fill('{}'::jsonb, array[20]), each => $1)";
                client.query(many, &[&each]).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Values that differ between two sendings of a request are not part of it, nor are the session's settings.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_is_recognized_on_any_connection() {
    let (queue, hand) = start(Unique::Active).await;
    let new = NewJob::new("held")
        .idempotency_key("i")
        .delay(Duration::from_secs(90))
        .deadline("2999-01-01T00:00:00Z".parse().unwrap());
    let first = queue
        .enqueue(
            &new.clone()
                .trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
                .correlation_id("one"),
        )
        .await
        .unwrap();
    let settings =
        "set timezone = 'Asia/Kolkata'; set intervalstyle = 'iso_8601'; set datestyle = 'SQL, DMY'";
    hand.client.batch_execute(settings).await.unwrap();
    let again = windlass::enqueue_in(
        &hand.client,
        &new.trace("00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b8-01").correlation_id("two"),
    )
    .await
    .unwrap();
    assert_eq!((again.id, again.is_duplicate, again.state), (first.id, true, Some(State::Scheduled)));
}

/// A guaranteed key outlives its job. The caller gets the information that the job was deleted, and it is not created again.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_a_purged_job_reports_the_deletion() {
    let (queue, hand) = start(Unique::Forever).await;
    let once = NewJob::new("held").idempotency_key("i");
    let first = queue.enqueue(&once).await.unwrap();
    queue.purge(DEFAULT_TENANT, &[first.id]).await.unwrap();
    let again = queue.enqueue(&once).await.unwrap();
    assert_eq!((again.id, again.is_duplicate, again.state), (first.id, true, None));

    let ever = NewJob::new("held").dedupe_key("k");
    let first = queue.enqueue(&ever).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let pruned = "select windlass.purge($1, array[$2::uuid], keep_promises => true)";
    hand.client.execute(pruned, &[&DEFAULT_TENANT, &first.id]).await.unwrap();
    let again = queue.enqueue(&ever).await.unwrap();
    assert_eq!(
        (again.id, again.is_duplicate, again.state),
        (first.id, true, None),
        "retention keeps the guaranteed key"
    );
    let actor = windlass::admin::Actor::new("ada");
    let placed = queue.enqueue_as(DEFAULT_TENANT, &actor, &ever.tenant(DEFAULT_TENANT)).await.unwrap();
    assert_eq!((placed.enqueued.state, placed.queued_at), (None, None));
    assert_eq!(count(&hand.client, "select count(*) from windlass.job").await, 0);
}
