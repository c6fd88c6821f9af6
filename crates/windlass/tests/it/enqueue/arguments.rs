//! Arguments of `windlass.enqueue` that no job can have.

use serde_json::json;
use uuid::Uuid;
use windlass::admin::Reach;
use windlass::{DEFAULT_TENANT, Error, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Hand, assert_counts_are_exact};

#[tokio::test(flavor = "multi_thread")]
async fn the_sql_function_names_the_argument_that_it_rejects() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for (argument, column) in [
        ("depends_on => array(select gen_random_uuid() from generate_series(1, 101))", "depends_on"),
        ("depends_on => array[array[gen_random_uuid()]]", "depends_on"),
        ("tags => array[array['a', 'b'], array['c', 'd']]", "tags"),
        ("tags => array['a', null]", "tags"),
        ("priority => -1", "priority"),
        ("priority => 1001", "priority"),
        ("subject_type => 'order'", "subject_id"),
        ("subject_id => '7'", "subject_type"),
        ("trace => 'anything'", "trace"),
        ("trace => '00-00000000000000000000000000000000-00f067aa0ba902b7-01'", "trace"),
    ] {
        let call = format!("select id from windlass.enqueue('held', {argument})");
        let error = hand.client.query_one(&call, &[]).await.unwrap_err();
        let refused = error.as_db_error().unwrap();
        assert_eq!((refused.code().code(), refused.column()), ("WL007", Some(column)), "{argument}");
    }
    // A row from before that rule is shown without its tags.
    let odd = hand.enqueue("'held', tags => array['a']").await;
    let spoil = "update windlass.job set tags = array[array['a', 'b']] where id = $1";
    hand.client.execute(spoil, &[&odd]).await.unwrap();
    let reading = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    assert!(reading.job(DEFAULT_TENANT, odd).await.unwrap().unwrap().tags.is_empty());
}

/// a raw unique violation, which an application cannot tell from one of its own tables.
#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_an_existing_job_is_refused_unless_it_is_a_repetition() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let need = hand.enqueue("'held'").await;
    for options in [
        "",
        ", delay => '1 hour'",
        &format!(", depends_on => array['{need}']::uuid[]"),
        ", ordering_key => 'k'",
    ] {
        let id = Uuid::now_v7();
        let call = |more: &str| format!("'held', job_id => '{id}'{options}{more}");
        assert_eq!(hand.enqueue(&call(", idempotency_key => 'i' || gen_random_uuid()")).await, id);
        let enqueue = format!("select id from windlass.enqueue({})", call(""));
        let error = hand.client.query_one(&enqueue, &[]).await.unwrap_err();
        let refused = error.as_db_error().unwrap();
        assert_eq!(
            (refused.code().code(), refused.column()),
            ("WL017", Some("job_id")),
            "{options}: {refused:?}"
        );
        let id_text = id.to_string();
        assert_eq!(refused.detail(), Some(id_text.as_str()));
        for new in [NewJob::new("held").id(id), NewJob::new("held").id(id).dedupe_key("d")] {
            let refused = queue.enqueue(&new).await.unwrap_err();
            assert!(matches!(refused, Error::Taken { what: "the job id" }), "{refused}");
        }
    }
    let id = Uuid::now_v7();
    let repeated = format!("'held', job_id => '{id}', idempotency_key => 'i'");
    for _ in 0..2 {
        assert_eq!(hand.enqueue(&repeated).await, id, "the same request again");
    }
    assert_counts_are_exact(&hand.client).await;
}

/// a conversion error names neither the field nor the job, and a number was stored as a text.
#[tokio::test(flavor = "multi_thread")]
async fn enqueue_many_names_the_option_with_a_wrong_type_and_what_it_expects() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for (field, wrong, expected) in [
        ("queue", json!(5), "a string"),
        ("priority", json!("high"), "a whole number"),
        ("priority", json!(1.5), "a whole number"),
        ("max_attempts", json!([1]), "a whole number"),
        ("scheduled_for", json!("soon"), "an instant"),
        ("scheduled_for", json!(1_700_000_000), "an instant"),
        ("deadline", json!("2030-02-31T00:00:00Z"), "an instant"),
        ("delay", json!("a while"), "an interval"),
        ("delay", json!({}), "an interval"),
        ("dedupe_key", json!(["k"]), "a string"),
        ("depends_on", json!("x"), "an array of ids"),
        ("depends_on", json!(["x"]), "an array of ids"),
        ("tags", json!("t"), "an array of strings"),
        ("tags", json!([1]), "an array of strings"),
        ("parent_id", json!("x"), "a UUID"),
        ("created_by", json!(7), "a UUID"),
        ("trace", json!(true), "a string"),
    ] {
        let options = json!({field: wrong});
        for (call, place) in [
            ("windlass.enqueue_many('held', array['{}', '{}']::jsonb[], options => $1)", "options"),
            (
                "windlass.enqueue_many('held', array['{}', '{}']::jsonb[], each => array[null, $1]::jsonb[])",
                "each[2]",
            ),
        ] {
            let error = hand.client.query(&format!("select * from {call}"), &[&options]).await.unwrap_err();
            let refused = error.as_db_error().unwrap();
            assert_eq!((refused.code().code(), refused.column()), ("WL007", Some(field)), "{options}");
            let wanted = format!("{place}: {field} must be {expected}");
            assert!(refused.message().starts_with(&wanted), "{}", refused.message());
        }
    }
    let fine = json!({"queue": "q", "priority": 5, "delay": 60, "tags": ["t"], "deadline": "2090-01-31T08:00:00Z",
        "parent_id": null, "uniqueness": "active", "dedupe_key": "d"});
    let call = "select * from windlass.enqueue_many('held', array['{}']::jsonb[], options => $1)";
    assert_eq!(hand.client.query(call, &[&fine]).await.unwrap().len(), 1);
}

/// 23 or 25 hours of a day on which the clocks of the session's time zone change. One of these delays ends after
/// one change, whatever the day of the test is.
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_in_days_does_not_depend_on_the_time_zone_of_the_session() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.client.batch_execute("set timezone = 'America/New_York'").await.unwrap();
    for days in [100, 150, 200, 250, 300] {
        let id = hand.enqueue(&format!("'held', delay => '{days} days'")).await;
        let seconds = "select extract(epoch from d.due_at - b.created_at)::float8 from windlass.job b
            join windlass.deferred d on d.job_id = b.id where b.id = $1";
        let seconds: f64 = hand.client.query_one(seconds, &[&id]).await.unwrap().get(0);
        assert_eq!(seconds, f64::from(days) * 86_400.0);
    }
}
