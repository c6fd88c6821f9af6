//! The keeper's work as one SQL function, for an installation without a process of ours.

use std::collections::BTreeMap;

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::OnTimeout;
use windlass::keeper::Duty;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{Login, TestQueue, eventually};

use crate::access::refusal;
use crate::support::{Hand, assert_counts_are_exact, attempts, count, job, soon, status};

/// What one duty did.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    moved: i32,
    note: Option<String>,
}

async fn tick(client: &Client) -> BTreeMap<String, Done> {
    let rows = client.query("select duty, moved, note from windlass.tick('20 s')", &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), Done { moved: row.get(1), note: row.get(2) })).collect()
}

async fn taken(client: &Client, key: &str) -> (Uuid, Uuid) {
    let query = "select id, token from windlass.take(array[$1::text])";
    let row = client.query_one(query, &[&key]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn every_duty_has_its_row() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_keeper").await;
    let client = role.client().await;
    let done = tick(&client).await;
    let mut duties: Vec<&str> = Duty::ALL.iter().map(|duty| duty.as_str()).collect();
    duties.sort_unstable();
    assert_eq!(done.keys().map(String::as_str).collect::<Vec<_>>(), duties);
    assert!(done.values().all(|done| done.note.is_none()), "{done:?}");
    for budget in ["'-1 s'", "'2 minutes'", "null"] {
        assert_eq!(refusal(client.query(&format!("select windlass.tick({budget})"), &[]).await), "WL007");
    }
    drop(client);
    role.drop().await;
}

#[tokio::test]
async fn jobs_are_promoted_recovered_and_expired() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let client = &hand.client;
    hand.define(json!({"key": "pulled", "backoff": {"kind": "fixed", "base_seconds": 0, "cap_seconds": 0}}))
        .await;
    hand.define(json!({"key": "once", "on_lost": "fail"})).await;
    let brief = Definition::new("brief").timeout(std::time::Duration::from_secs(1), OnTimeout::Fail);
    queue.define(&brief.backoff(soon())).await.unwrap();

    let due = hand.enqueue("'pulled', delay => '1 ms'").await;
    let late =
        hand.enqueue("'pulled', delay => '1 day', deadline => clock_timestamp() + interval '1 hour'").await;
    client.batch_execute("update windlass.expiry set expires_at = now() - interval '1 s'").await.unwrap();
    client
        .batch_execute("update windlass.job set deadline = now() - interval '1 s' where deadline is not null")
        .await
        .unwrap();
    let lost = hand.enqueue("'once'").await;
    taken(client, "once").await;
    let slow = hand.enqueue("'brief'").await;
    taken(client, "brief").await;
    let expire = "update windlass.pull_lease set expires_at = now() - interval '1 s',
        times_out_at = case job_id when $1 then now() - interval '1 s' else times_out_at end";
    client.execute(expire, &[&slow]).await.unwrap();
    let held = hand.enqueue("'pulled'").await;
    hand.claim_one().await;
    hand.miss_heartbeats().await;

    let done = tick(client).await;
    assert_eq!((done["promote"].moved, done["reap"].moved), (1, 3), "{done:?}");
    assert_eq!(status(client, due).await, "queued");
    assert_eq!(job(client, late).await["reason"], json!("expired"));
    assert_eq!(
        (status(client, lost).await.as_str(), job(client, lost).await["reason"].clone()),
        ("failed", json!("lost"))
    );
    assert_eq!(job(client, slow).await["reason"], json!("timeout"));
    assert_eq!(job(client, slow).await["last_error"], json!("the attempt ran past its timeout"));
    assert_eq!(attempts(client, slow).await, ["timeout"]);
    assert_eq!(status(client, held).await, "scheduled", "it is retried within five seconds");
    assert_eq!(attempts(client, held).await, ["lost"]);
    assert_eq!(job(client, held).await["last_error"], json!("the worker's lease expired"));
    tick(client).await;
    assert_eq!(count(client, "select count(*) from windlass.tally").await, 0, "the counters are folded");
    assert_counts_are_exact(client).await;
}

/// With the same reasons as a keeper in Rust.
#[tokio::test]
async fn a_job_that_kills_its_workers_becomes_a_dead_letter() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "poison", "max_lost": 2, "max_attempts": 10})).await;
    let id = hand.enqueue("'poison'").await;
    for _ in 0..2 {
        taken(&hand.client, "poison").await;
        let expire = "update windlass.pull_lease set expires_at = now() - interval '1 s'";
        hand.client.batch_execute(expire).await.unwrap();
        assert_eq!(tick(&hand.client).await["reap"].moved, 1);
        hand.client.batch_execute("update windlass.deferred set due_at = now()").await.unwrap();
        tick(&hand.client).await;
    }
    let row = job(&hand.client, id).await;
    assert_eq!((&row["status"], &row["reason"]), (&json!("dead_letter"), &json!("poison")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_returns_at_once_without_rows() {
    let queue = TestQueue::create().await;
    let (first, second) = (queue.client().await, queue.client().await);
    first.batch_execute("begin; select windlass.tick()").await.unwrap();
    assert!(tick(&second).await.is_empty());
    first.batch_execute("commit").await.unwrap();
    assert!(!tick(&second).await.is_empty());
}

#[tokio::test]
async fn a_duty_that_fails_is_reported_and_does_not_stop_the_others() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("a")).await.unwrap();
    client.batch_execute("select windlass.enqueue('a', delay => '1 ms')").await.unwrap();
    client.batch_execute("drop function windlass.sample_activity").await.unwrap();
    let done = tick(&client).await;
    assert_eq!(done["promote"].moved, 1);
    assert!(done["sample"].note.as_ref().unwrap().starts_with("42883: "), "{done:?}");
}

#[tokio::test]
async fn a_backlog_is_processed_until_the_budget_is_used() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let many: Vec<NewJob> =
        (0..2500).map(|_| NewJob::new("a").delay(std::time::Duration::from_millis(1))).collect();
    queue.enqueue_many(&many).await.unwrap();
    let moved = "select moved from windlass.tick('0 s') where duty = 'promote'";
    let first: i32 = client.query_one(moved, &[]).await.unwrap().get(0);
    assert_eq!(first, 1000, "one batch of each duty in any case");
    let moved = "select moved from windlass.tick('1 minute') where duty = 'promote'";
    let rest: i32 = client.query_one(moved, &[]).await.unwrap().get(0);
    assert_eq!(rest, 1500);
}

/// A batch that is full of events is one that has more, whatever there is of jobs.
#[tokio::test]
async fn expired_events_are_deleted_until_none_is_left() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let write = "insert into windlass.event (tenant_id, id, name, payload, emitted_at)
        select $1, windlass.uuid7_floor(now() - interval '40 days' - n * interval '1 ms'), 'a.b', '{}', now()
          from generate_series(1, 3000) n";
    client.execute(write, &[&DEFAULT_TENANT]).await.unwrap();
    let moved = "select moved from windlass.tick('1 minute') where duty = 'prune'";
    let moved: i32 = client.query_one(moved, &[]).await.unwrap().get(0);
    assert_eq!((moved, count(&client, "select count(*) from windlass.event").await), (3000, 0));
}

/// It does not pretend to do what only a keeper can decide.
#[tokio::test]
async fn schedules_and_events_that_wait_for_a_keeper_are_named() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let trigger = NewTrigger::schedule("every minute", "* * * * *", "a");
    crate::schedule::create(&queue, &trigger).await;
    client
        .batch_execute("update windlass.job_triggers set next_due_at = now() - interval '1 s'")
        .await
        .unwrap();
    let emit = "select windlass.emit('it.happened')";
    crate::schedule::create(&queue, &NewTrigger::event("on it", "it.happened", "a")).await;
    client.batch_execute(emit).await.unwrap();
    let done = tick(&client).await;
    for duty in ["schedule", "dispatch"] {
        assert_eq!(done[duty].note.as_deref(), Some("1 due; only a keeper can process them"), "{done:?}");
    }
    assert_eq!(count(&client, "select count(*) from windlass.fire").await, 0);
    assert_eq!(queue.counts(Some(DEFAULT_TENANT)).await.unwrap().len(), 0);
}

/// An application that waits for a moved row would hold the tables that the partitions are created in.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_has_moved_rows_locks_no_tables() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let drop_tomorrow = "do $$ begin execute format('drop table windlass.%I',
        'job' || to_char((now() + interval '1 day') at time zone 'UTC', '_YYYYMMDD')); end $$";
    hand.client.batch_execute(drop_tomorrow).await.unwrap();
    hand.define(json!({"key": "a"})).await;
    hand.enqueue("'a', delay => '1 ms'").await;
    let (mut is_promoted, mut is_made) = (false, false);
    eventually("both are done", async || {
        let done = tick(&hand.client).await;
        let moved = |duties: &[&str]| duties.iter().any(|duty| done[*duty].moved > 0);
        let (tables, rows) = (
            moved(&["partition", "retire"]),
            moved(&["promote", "reap", "expire", "unblock", "fold", "prune"]),
        );
        assert!(!(tables && rows), "{done:?}");
        is_promoted |= done["promote"].moved > 0;
        is_made |= done["partition"].moved > 0;
        is_promoted && is_made
    })
    .await;
}
