//! Small requirements of the five documents that no other test covers.

use serde_json::{Value, json};
use windlass::{Definition, Done, Failure, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Held, job, until, worker};

#[tokio::test]
async fn every_time_is_stored_with_its_zone() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let without = "select table_name || '.' || column_name from information_schema.columns
                    where table_schema = 'windlass' and data_type in ('timestamp without time zone', 'date', 'time without time zone')";
    let found: Vec<String> = client.query(without, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(found, Vec::<String>::new());
    let with: i64 = client
        .query_one("select count(*) from information_schema.columns where table_schema = 'windlass' and data_type = 'timestamp with time zone'", &[])
        .await
        .unwrap()
        .get(0);
    assert!(with > 20, "only {with} columns contain a time: is this the schema?");
}

#[tokio::test]
async fn a_definition_has_the_specified_columns_and_its_change_time() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("sync").description("first")).await.unwrap();
    let read = "select to_jsonb(d) from windlass.job_definitions d where key = 'sync'";
    let first: Value = client.query_one(read, &[]).await.unwrap().get(0);
    queue.define(&Definition::new("sync").description("second")).await.unwrap();
    let second: Value = client.query_one(read, &[]).await.unwrap().get(0);
    for column in [
        "id",
        "key",
        "description",
        "arg_schema",
        "timeout_seconds",
        "max_attempts",
        "is_active",
        "created_at",
        "updated_at",
    ] {
        assert!(second.get(column).is_some(), "no column {column}");
    }
    assert_eq!((&first["id"], &first["created_at"]), (&second["id"], &second["created_at"]));
    assert_ne!(first["updated_at"], second["updated_at"]);
    let twin =
        client.execute("insert into windlass.job_definitions (key) values ('sync')", &[]).await.unwrap_err();
    assert_eq!(twin.as_db_error().and_then(|error| error.constraint()), Some("job_definitions_key_unique"));
    let index: i64 = client
        .query_one("select count(*) from pg_indexes where schemaname = 'windlass' and tablename = 'job_definitions' and indexdef like '%(is_active)%'", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(index, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_shows_how_long_it_is_hidden_from_others() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (handler, mut desk) = Held::new();
    let worker = worker(&queue).handler(handler).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let run = desk.next().await;
    let row = job(&client, id).await;
    assert_eq!(row["status"], "running");
    let is_ahead: bool = client
        .query_one("select lease_expires_at > now() from windlass.jobs where id = $1", &[&id])
        .await
        .unwrap()
        .get(0);
    assert!(is_ahead);
    run.succeed();
    until(&client, id, "succeeded").await;
    assert_eq!(job(&client, id).await["lease_expires_at"], Value::Null);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_failed_job_has_an_error() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (handler, mut desk) = Held::new();
    let worker = worker(&queue).handler(handler).start().await.unwrap();
    let good = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    desk.next().await.end(Ok(Done::new().result(&json!({"fine": true}))));
    until(&client, good, "succeeded").await;
    let bad = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    desk.next().await.end(Err(Failure::permanent("no such post")));
    until(&client, bad, "failed").await;
    assert_eq!(job(&client, good).await["last_error"], Value::Null);
    assert_eq!(job(&client, bad).await["last_error"], "no such post");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_the_same_from_every_entry_point() {
    let queue = TestQueue::create().await;
    let mut client = queue.client().await;
    queue.define(&Definition::new("entries")).await.unwrap();
    let payload = json!({"roles": [{"name": "Ünï 💡", "speed": 1.25}], "n": 9_007_199_254_740_991_i64, "none": null, "deep": {"a": [[], {}]}});
    let one = NewJob::new("entries").payload(&payload);
    let mut ids = vec![queue.enqueue(&one).await.unwrap().id];
    ids.extend(queue.enqueue_many(&[one.clone(), one.clone()]).await.unwrap().iter().map(|job| job.id));
    let transaction = client.transaction().await.unwrap();
    ids.push(windlass::enqueue_in(&transaction, &one).await.unwrap().id);
    transaction.commit().await.unwrap();
    ids.push(
        client
            .query_one("select id from windlass.enqueue('entries', $1::jsonb)", &[&payload])
            .await
            .unwrap()
            .get(0),
    );
    for id in ids {
        assert_eq!(job(&client, id).await["payload"], payload);
    }
}
