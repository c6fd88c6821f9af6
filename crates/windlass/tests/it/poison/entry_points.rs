//! The entry points reject values that a keeper could not use, by the field's name.

use serde_json::{Value, json};
use tokio_postgres::Client;
use windlass::admin::Reach;
use windlass::job::{Filter, State};
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Hand, count, keeper, status};

/// The code and the field of an error.
async fn refused(client: &Client, call: &str) -> (String, String) {
    let error = client.batch_execute(call).await.expect_err(call);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{call}: {error}")).clone();
    (error.code().code().to_owned(), error.column().unwrap_or(error.message()).to_owned())
}

#[tokio::test]
async fn a_definition_is_checked_by_sql_too_and_the_error_names_the_field() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let bad: [(&str, Value); 26] = [
        ("retention", json!({"succeeded": "7d"})),
        ("retention", json!({"succeeded": 1.5})),
        ("retention", json!({"finished": 7})),
        ("retention", json!([])),
        ("backoff", json!({"base": 5})),
        ("backoff", json!({"base_seconds": "5"})),
        ("backoff", json!({"base_seconds": 1e9})),
        ("backoff", json!({"base_seconds": 700})),
        ("backoff", json!({"kind": "cubic"})),
        ("backoff", json!("fast")),
        ("uniqueness", json!("per-day")),
        ("uniqueness", json!({"window_seconds": 0})),
        ("uniqueness", json!({"window_seconds": 5, "and": 1})),
        ("uniqueness", Value::Null),
        ("max_attempts", json!(0)),
        ("max_attempts", json!("3")),
        ("timeout_seconds", json!(604_801)),
        ("start_deadline_seconds", json!(400_000_000)),
        ("max_running", json!(0)),
        ("on_lost", json!("ignore")),
        ("queue", json!("a queue")),
        ("is_active", json!("yes")),
        ("arg_schema", json!("any")),
        ("redaction", json!({"keys": [5]})),
        ("colour", json!("red")),
        ("priority", json!(2000)),
    ];
    for (field, value) in bad {
        let mut fields = json!({"key": "k"});
        fields[field] = value;
        for call in ["define", "create_definition"] {
            let call = format!("select windlass.{call}('{fields}')");
            assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), field.to_owned()), "{call}");
        }
    }
    assert_eq!(count(&client, "select count(*) from windlass.job_definitions").await, 0, "nothing is stored");
    let fine = json!({"key": "k", "retention": {"succeeded": 5, "failed": null}, "uniqueness": {"window_seconds": 0.5},
        "backoff": {"kind": "fixed", "base_seconds": 1}, "max_running": null, "redaction": {"keys": ["x"]}});
    client.batch_execute(&format!("select windlass.define('{fine}')")).await.unwrap();
}

#[tokio::test]
async fn triggers_tenants_and_retention_are_checked_by_sql_too() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let trigger = |field: &str, value: Value| {
        let mut fields = json!({"label": "l", "is_enabled": true, "trigger_type": "schedule", "conditions": {}, "cron_expr": "@daily",
            "timezone": "UTC", "definition_key": "held", "payload_template": {}, "dedupe_window_seconds": 0, "misfire": "skip",
            "misfire_max": 1, "misfire_window_seconds": 1, "misfire_grace_seconds": 1, "overlap": "allow", "jitter_seconds": 0});
        fields[field] = value;
        format!("select windlass.create_trigger('{DEFAULT_TENANT}', '{fields}', null)")
    };
    client.batch_execute(&trigger("label", json!("fine"))).await.unwrap();
    let bad = [
        ("timezone", json!("Mars/Base")),
        ("cron_expr", Value::Null),
        ("misfire", json!("sometimes")),
        ("jitter_seconds", json!(1.5)),
        ("starts_at", json!("infinity")),
        ("ends_at", json!("12026-01-01T00:00:00Z")),
        ("conditions", json!([])),
        ("event_name", json!("a.b")),
    ];
    for (field, value) in bad {
        let call = trigger(field, value);
        assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), field.to_owned()), "{call}");
    }
    let due = trigger("label", json!("x")).replace(", null)", ", 'infinity')");
    assert_eq!(refused(&client, &due).await.1, "next_due");
    for (field, value) in [
        ("timezone", json!("Mars/Base")),
        ("weight", json!(0)),
        ("max_queued", json!(-1)),
        ("colour", json!(1)),
        ("slug", json!("A B")),
    ] {
        let mut fields = json!({"slug": "t", "name": "T"});
        fields[field] = value;
        let call = format!("select windlass.create_tenant('{fields}')");
        assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), field.to_owned()), "{call}");
    }
    for (call, field) in [
        ("'*', 'done', 5", "status"),
        ("'*', 'failed', -1", "keep_seconds"),
        ("'held', 'event', 1", "definition_key"),
    ] {
        let call = format!("select windlass.set_retention('{DEFAULT_TENANT}', {call}, false)");
        assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), field.to_owned()), "{call}");
    }
}

#[tokio::test]
async fn an_unchecked_uniqueness_lasts_as_long_as_the_job() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    client.batch_execute(r#"update windlass.job_definitions set uniqueness = '"per-day"'"#).await.unwrap();
    let first = queue.enqueue(&NewJob::new("held").dedupe_key("k")).await.unwrap();
    assert!(queue.enqueue(&NewJob::new("held").dedupe_key("k")).await.unwrap().is_duplicate);
    queue.cancel(DEFAULT_TENANT, first.id).await.unwrap();
    assert!(!queue.enqueue(&NewJob::new("held").dedupe_key("k")).await.unwrap().is_duplicate);
}

#[tokio::test]
async fn an_instant_out_of_range_is_rejected_at_every_entry_point() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    for at in ["infinity", "-infinity", "12026-01-01", "0044-03-15 BC", "294276-01-01"] {
        for field in ["scheduled_for", "deadline"] {
            let call = format!("select windlass.enqueue('held', {field} => '{at}')");
            assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), field.to_owned()), "{call}");
            let options = json!({ field: at });
            let call =
                format!("select windlass.enqueue_many('held', array['{{}}'::jsonb], options => '{options}')");
            assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), field.to_owned()), "{call}");
        }
    }
    for delay in ["200000 years", "-200000 years", "120 years"] {
        let call = format!("select windlass.enqueue('held', delay => '{delay}')");
        assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), "delay".to_owned()), "{call}");
    }
    let token = json!({"id": "i", "kind": "api", "name": "n", "role": "viewer", "created_by": "c", "expires_at": "infinity"});
    let call = format!("select windlass.create_token('{DEFAULT_TENANT}', '{token}', 'h')");
    assert_eq!(refused(&client, &call).await, ("WL007".to_owned(), "expires_at".to_owned()));
}

/// A row that was written before the entry points rejected such instants.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_an_instant_out_of_range_is_listed_claimed_and_reaped() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let odd = hand.enqueue("'held'").await;
    let early = hand.enqueue("'held'").await;
    let later = hand.enqueue("'held', delay => '1 h'").await;
    let spoil = format!(
        "update windlass.job set deadline = 'infinity', scheduled_for = 'infinity' where id = '{odd}';
         update windlass.job set deadline = '294276-01-01', scheduled_for = '-infinity' where id = '{early}';
         update windlass.deferred set due_at = 'infinity' where job_id = '{later}'"
    );
    hand.client.batch_execute(&spoil).await.unwrap();
    assert_eq!(queue.list(&Filter::new(DEFAULT_TENANT)).await.unwrap().jobs.len(), 3);
    for job in [odd, early, later] {
        assert!(queue.job(DEFAULT_TENANT, job).await.unwrap().is_some());
        let reading = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
        reading.why(job).await.unwrap();
        reading.end().await.unwrap();
    }
    keeper(&queue).run_once(Duty::Promote).await.unwrap();
    assert_eq!(hand.claim_all().await.len(), 2);
    hand.miss_heartbeats().await;
    assert_eq!(keeper(&queue).run_once(Duty::Reap).await.unwrap().moved, 2);
    assert_eq!(status(&hand.client, odd).await, "scheduled");
}

/// A body without a state is damaged; it used to be shown as queued.
#[tokio::test]
async fn a_job_without_a_state_is_an_error_and_hides_no_other() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let damaged = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let good = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    client.execute("delete from windlass.line where $1 = any (ids)", &[&damaged]).await.unwrap();
    let error = queue.job(DEFAULT_TENANT, damaged).await.unwrap_err().to_string();
    assert!(error.contains(&damaged.to_string()), "{error}");
    let listed = queue.list(&Filter::new(DEFAULT_TENANT)).await.unwrap().jobs;
    assert_eq!(listed.iter().map(|job| (job.id, job.status)).collect::<Vec<_>>(), [(good, State::Queued)]);
}

/// A code of another release, or of a damaged row; it used to be read as queued.
#[tokio::test]
async fn an_unknown_state_code_is_an_error_and_hides_no_other() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let (damaged, good) = (hand.enqueue("'held'").await, hand.enqueue("'held'").await);
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    let spoil = format!(
        "alter table windlass.history drop constraint history_status_is_terminal;
         update windlass.history set job_status = 9 where job_id = '{damaged}'"
    );
    hand.client.batch_execute(&spoil).await.unwrap();
    let looking = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    for error in
        [queue.job(DEFAULT_TENANT, damaged).await.unwrap_err(), looking.why(damaged).await.unwrap_err()]
    {
        assert!(error.to_string().contains(&damaged.to_string()), "{error}");
    }
    looking.end().await.unwrap();
    let listed = queue.list(&Filter::new(DEFAULT_TENANT)).await.unwrap().jobs;
    let listed: Vec<_> = listed.iter().map(|job| (job.id, job.status)).collect();
    assert_eq!(listed, [(good, State::Succeeded)]);
}
