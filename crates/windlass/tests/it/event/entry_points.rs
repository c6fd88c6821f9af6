//! The entry points: SQL, Rust in the caller's transaction, and a row trigger of the application.

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::events::{EventFilter, NewEvent, emit_in};
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Error};
use windlass_testing::TestQueue;

use super::{dispatch, event, folder_updated, outcomes, sync_dropbox};
use crate::schedule::create;
use crate::support::count;

#[tokio::test(flavor = "multi_thread")]
async fn an_event_exists_if_and_only_if_its_transaction_commits() {
    let queue = TestQueue::create().await;
    let mut client = queue.client().await;
    sync_dropbox(&queue).await;
    let tx = client.transaction().await.unwrap();
    let undone = emit_in(&tx, &folder_updated("/a")).await.unwrap();
    tx.rollback().await.unwrap();
    let tx = client.transaction().await.unwrap();
    let done = emit_in(&tx, &folder_updated("/b").correlation_id("request 7")).await.unwrap();
    tx.commit().await.unwrap();
    dispatch(&queue).await;
    assert_eq!(queue.event(DEFAULT_TENANT, undone.id).await.unwrap(), None);
    assert_eq!(outcomes(&event(&queue, done.id).await), [("fired", None)]);
    assert_eq!(
        count(&client, "select count(*) from windlass.job where correlation_id = 'request 7'").await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_dedupe_id_is_the_same_event() {
    let queue = TestQueue::create().await;
    sync_dropbox(&queue).await;
    let new = folder_updated("/a").dedupe_id("delivery 1");
    let first = queue.emit(&new).await.unwrap();
    let again = queue.emit(&new).await.unwrap();
    assert_eq!((first.is_duplicate, again.is_duplicate, again.id), (false, true, first.id));
    let other = queue.tenant("other").await;
    assert!(!queue.emit(&new.tenant(other)).await.unwrap().is_duplicate, "another tenant's id is separate");
    assert_eq!(queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_event_is_rejected_in_sql_and_rust() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let field = |error: Error| match error {
        Error::Refused { field, .. } => field,
        other => panic!("{other}"),
    };
    let long = "x".repeat(501);
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(field(queue.emit(&NewEvent::new("no spaces")).await.unwrap_err()), "name");
    assert_eq!(field(queue.emit(&NewEvent::new("a").dedupe_id(&long)).await.unwrap_err()), "dedupe_id");
    assert_eq!(field(queue.emit(&NewEvent::new("a").payload(&deep)).await.unwrap_err()), "payload");
    assert_eq!(field(queue.emit(&NewEvent::new("a").payload(&"\u{0}")).await.unwrap_err()), "payload");
    let rejected = queue.emit(&NewEvent::new("a").tenant(Uuid::nil())).await.unwrap_err();
    assert!(matches!(rejected, Error::TenantRefused { .. }));
    for (call, code, column) in [
        ("windlass.emit('a b')".to_owned(), "WL007", "name"),
        ("windlass.emit(null)".to_owned(), "WL007", "name"),
        ("windlass.emit('a', null)".to_owned(), "WL007", "payload"),
        (format!("windlass.emit('a', '{deep}')"), "WL005", "payload"),
        (format!("windlass.emit('a', trace => '{long}')"), "WL007", "trace"),
    ] {
        let error = client.query(&format!("select * from {call}"), &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.code().code(), error.column()), (code, Some(column)), "{call}");
    }
}

/// Document 002's webhook without its at-most-once step: the row and its event are one transaction. From `docs/events.md`.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_trigger_emits_with_the_row_or_not_at_all() {
    let queue = TestQueue::create().await;
    let mut client = queue.client().await;
    queue.define(&windlass::Definition::new("scrape")).await.unwrap();
    let new = NewTrigger::event("scrape new videos", "clipnest.video.created", "scrape")
        .payload_template(json!({"video": "{{event.id}}", "url": "{{event.video_url}}"}));
    create(&queue, &new).await;
    let document = include_str!("../../../../../docs/events.md");
    let example =
        document.split("```sql\n").find(|block| block.contains("create table clipnest_videos")).unwrap();
    client.batch_execute(example.split("```").next().unwrap()).await.unwrap();

    let tx = client.transaction().await.unwrap();
    tx.execute("insert into clipnest_videos (video_url) values ('https://v.example/lost')", &[])
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    client
        .execute(
            "insert into clipnest_videos (video_url) values ('https://v.example/1'), ('https://v.example/2')",
            &[],
        )
        .await
        .unwrap();
    dispatch(&queue).await;
    let payloads: Vec<Value> = client
        .query("select payload from windlass.job order by payload ->> 'url'", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let urls: Vec<&str> = payloads.iter().map(|payload| payload["url"].as_str().unwrap()).collect();
    assert_eq!(urls, ["https://v.example/1", "https://v.example/2"]);
    assert!(payloads[0]["video"].is_number(), "the type of the column is kept");
}
