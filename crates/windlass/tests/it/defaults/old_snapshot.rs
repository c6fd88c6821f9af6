//! Transactions whose snapshot is older than what others have committed since: they see it, are refused, or fail.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass_testing::TestQueue;

use crate::support::{Hand, assert_counts_are_exact, count, keeper, status};

const LEVELS: [&str; 2] = ["repeatable read", "serializable"];

/// A client whose snapshot is taken now.
async fn old(queue: &TestQueue, level: &str) -> Client {
    let client = queue.client().await;
    client.batch_execute(&format!("begin isolation level {level}; select from windlass.job")).await.unwrap();
    client
}

/// The SQLSTATE of a refusal, or `ok`.
async fn code(client: &Client, call: &str) -> String {
    match client.batch_execute(call).await {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.code().unwrap_or_else(|| panic!("{call}: {error}")).code().to_owned(),
    }
}

fn trigger(overlap: &str) -> Value {
    json!({"label": "x", "is_enabled": true, "trigger_type": "schedule", "cron_expr": "0 0 1 1 *", "timezone": "UTC",
        "conditions": {}, "definition_key": "held", "payload_template": {}, "dedupe_window_seconds": 0, "misfire": "skip",
        "misfire_max": 1, "misfire_window_seconds": 60, "misfire_grace_seconds": 60, "overlap": overlap, "jitter_seconds": 0})
}

fn create_trigger(overlap: &str) -> String {
    format!(
        "select windlass.create_trigger('{DEFAULT_TENANT}', '{}', now() + interval '100 days')",
        trigger(overlap)
    )
}

#[tokio::test]
async fn a_trigger_that_is_run_by_hand_keeps_its_overlap_policy_at_every_level() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for level in LEVELS {
        let id: Uuid = hand.client.query_one(&create_trigger("skip"), &[]).await.unwrap().get(0);
        let run = format!(
            "select windlass.run_trigger('{DEFAULT_TENANT}', '{id}', 1, null, array[windlass.uuid7()], 'held', array['{{}}']::jsonb[])"
        );
        let late = old(&queue, level).await;
        assert_eq!(code(&hand.client, &run).await, "ok");
        assert_eq!(code(&late, &run).await, "WL021");
        late.batch_execute("rollback").await.unwrap();
        let fired =
            format!("select count(*) from windlass.fire where trigger_id = '{id}' and outcome = 'fired'");
        assert_eq!(count(&hand.client, &fired).await, 1, "{level}");
    }
}

#[tokio::test]
async fn the_limit_on_triggers_is_exact_at_every_level() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for (n, level) in (1..).zip(LEVELS) {
        client.execute("update windlass.tenants set max_triggers = $1", &[&n]).await.unwrap();
        let late = old(&queue, level).await;
        assert_eq!(code(&client, &create_trigger("allow")).await, "ok");
        assert_eq!(code(&late, &create_trigger("allow")).await, "40001", "{level}");
        late.batch_execute("rollback").await.unwrap();
        assert_eq!(code(&late, &create_trigger("allow")).await, "WL015");
        assert_eq!(count(&client, "select count(*) from windlass.job_triggers").await, i64::from(n));
    }
}

#[tokio::test]
async fn a_changed_password_leaves_no_session_that_began_after_the_snapshot() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let make =
        "insert into windlass.users (email, password_hash) values ('a@example.com', 'h1') returning id";
    let user: Uuid = client.query_one(make, &[]).await.unwrap().get(0);
    for level in LEVELS {
        let late = old(&queue, level).await;
        let begin = "select windlass.create_session(sha256(gen_random_uuid()::text::bytea), $1, null, 'h1', null, 3600, null, null)";
        assert!(client.query_one(begin, &[&user]).await.unwrap().get::<_, bool>(0));
        let change = format!("select windlass.change_password('{user}', 'h1', 'h2', null)");
        assert_eq!(code(&late, &change).await, "WL021", "{level}");
    }
    let stored = "select count(*) from windlass.users where password_hash = 'h1'";
    assert_eq!(count(&client, stored).await, 1, "nothing was changed");
}

/// Of two jobs that a third one waits for, each ends in a transaction that does not see the end of the other. The keeper
/// makes one round: it does not have to pass over all blocked jobs.
#[tokio::test]
async fn a_job_is_unblocked_though_neither_of_its_dependencies_saw_the_other_end() {
    for (first, second) in [
        ("read committed", LEVELS[0]),
        (LEVELS[0], LEVELS[0]),
        (LEVELS[1], LEVELS[0]),
        (LEVELS[0], LEVELS[1]),
    ] {
        let queue = TestQueue::create().await;
        let hand = Hand::new(queue.client().await).await;
        hand.define(json!({"key": "held"})).await;
        let (a, b) = (hand.enqueue("'held'").await, hand.enqueue("'held'").await);
        // They come first in the sweep over all blocked jobs.
        let first_tenant = "insert into windlass.tenants (id, slug, name) values ('00000000-0000-0000-0000-000000000001', 'first', 'first')";
        hand.client.batch_execute(first_tenant).await.unwrap();
        let tenant = "tenant_id => '00000000-0000-0000-0000-000000000001'";
        let other = hand.enqueue(&format!("'held', {tenant}")).await;
        let many = format!(
            "select count(*) from generate_series(1, 150), windlass.enqueue('held', '{{}}', {tenant}, depends_on => array['{other}']::uuid[])"
        );
        hand.client.query_one(&many, &[]).await.unwrap();
        let waits = hand
            .enqueue(&format!("'held', depends_on => array['{a}', '{b}']::uuid[], if_unmet => 'run'"))
            .await;
        let keeper = keeper(&queue);
        keeper.run_once(Duty::Unblock).await.unwrap();
        let (one, two) = (old(&queue, first).await, old(&queue, second).await);
        let cancel = |id: Uuid| format!("select windlass.cancel('{DEFAULT_TENANT}', '{id}'); commit");
        assert_eq!(code(&one, &cancel(a)).await, "ok");
        if code(&two, &cancel(b)).await == "40001" {
            two.batch_execute("rollback; begin").await.unwrap();
            assert_eq!(code(&two, &cancel(b)).await, "ok");
        }
        hand.client
            .batch_execute("update windlass.unblock_mark set sweep_tenant = default, sweep_job = default")
            .await
            .unwrap();
        keeper.run_once(Duty::Unblock).await.unwrap();
        assert_eq!(status(&hand.client, waits).await, "queued", "{first}, {second}");
        assert_counts_are_exact(&hand.client).await;
    }
}
