//! `enqueue_many`: all jobs or none, each with its own options.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::{Definition, Error, NewJob};
use windlass_testing::{Login, TestQueue};

use crate::support::{assert_counts_are_exact, everything, job};

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_many_takes_options_for_all_and_for_each() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let many = r#"select * from windlass.enqueue_many('plain', array['{"n":0}', '{"n":1}', 'null']::jsonb[],
        options => '{"queue": "bulk", "tags": ["all"]}', each => array['{"dedupe_key": "z"}', '{"dedupe_key": "a", "delay": "1 h"}', null]::jsonb[])"#;
    let rows = client.query(many, &[]).await.unwrap();
    let seen: Vec<(i32, &str)> = rows.iter().map(|row| (row.get("ord"), row.get("status"))).collect();
    assert_eq!(seen, [(1, "queued"), (2, "scheduled"), (3, "queued")]);
    let second = job(&client, rows[1].get("id")).await;
    assert_eq!(
        (&second["queue"], &second["dedupe_key"], &second["tags"]),
        (&json!("bulk"), &json!("a"), &json!(["all"]))
    );
    assert_eq!(job(&client, rows[2].get("id")).await["payload"], Value::Null);
    for wrong in [r#"options => '{"quue": "x"}'"#, r#"each => array['{"job": 1}']::jsonb[]"#] {
        let call = format!("select * from windlass.enqueue_many('plain', array['{{}}']::jsonb[], {wrong})");
        let error = Error::from(client.query(&call, &[]).await.unwrap_err());
        assert!(matches!(&error, Error::Refused { field, .. } if field == "options"), "{error}");
    }
}

/// What would be dropped, or would apply to another job, is refused. Without options there are none.
#[tokio::test(flavor = "multi_thread")]
async fn enqueue_many_drops_no_option_and_shifts_none() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let before = everything(&client).await;
    let of = |arguments: &str| {
        format!("select id from windlass.enqueue_many('plain', array['1', '2']::jsonb[], {arguments})")
    };
    let wrong = [
        r#"each => array[array['{"dedupe_key": "a"}', null]]::jsonb[]"#,
        r#"each => '[0:1]={"{}","{}"}'::jsonb[]"#,
        r#"each => array['{"dedupe_key": "a"}']::jsonb[]"#,
        r#"each => array[null, null, '{"dedupe_key": "a"}']::jsonb[]"#,
        r#"each => '{}'"#,
        r#"each => array['{}', '[]']::jsonb[]"#,
        r#"options => '[{"dedupe_key": "a"}]'"#,
        r#"options => 'null'"#,
    ];
    for wrong in wrong {
        let error = client.query(&of(wrong), &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "WL007", "{wrong}: {error:?}");
    }
    assert_eq!(everything(&client).await, before);
    let without = r#"options => null, each => array['{"dedupe_key": "a"}', null]::jsonb[]"#;
    let rows = client.query(&of(without), &[]).await.unwrap();
    assert_eq!(job(&client, rows[0].get(0)).await["dedupe_key"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_many_takes_all_or_none() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    queue.enqueue_many(&[]).await.unwrap();
    queue.enqueue(&NewJob::new("plain")).await.unwrap();
    let before = everything(&client).await;
    let plain = || NewJob::new("plain");
    let batches = [
        vec![plain(), plain(), NewJob::new("unknown")],
        vec![plain(), plain().dedupe_key("k"), plain().delay(Duration::from_secs(1)).max_attempts(0)],
        vec![plain().dedupe_key("a"), plain().depends_on(Uuid::new_v4())],
    ];
    for batch in batches {
        queue.enqueue_many(&batch).await.unwrap_err();
        assert_eq!(everything(&client).await, before);
    }
    let mixed: Vec<_> =
        (0..2500).map(|n| if n % 1000 == 7 { plain().dedupe_key(format!("{n}")) } else { plain() }).collect();
    let results = queue.enqueue_many(&mixed).await.unwrap();
    assert_eq!(results.len(), 2500);
    assert_eq!(job(&client, results[1007].id).await["dedupe_key"], "1007", "results are in the given order");
    assert_counts_are_exact(&client).await;
}

/// A-238: an application can lock keys without a job and end the transaction. Nothing deleted these rows.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_were_locked_and_not_taken_are_released_at_the_commit() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("a")).await.unwrap();
    queue.enqueue(&NewJob::new("a").dedupe_key("held")).await.unwrap();
    let app = Login::create(&queue, "windlass_app").await;
    let theirs = app.client().await;
    let before = everything(&client).await;
    let lock = "select windlass.lock_keys(null, array['i'], array['d', 'held'], array['o'], null)";
    for transaction in [
        lock.to_owned(),
        format!("begin; {lock}; {lock}; commit"),
        format!("begin; {lock}; set constraints all immediate; {lock}; commit"),
        format!("begin; {lock}; select windlass.unlock_keys(null, array['i'], null, null); commit"),
    ] {
        theirs.batch_execute(&transaction).await.unwrap();
        assert_eq!(everything(&client).await, before, "{transaction}");
    }
    drop(theirs);
    app.drop().await;
}
