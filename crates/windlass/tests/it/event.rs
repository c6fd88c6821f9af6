//! Events: written in the same transaction as the fact, dispatched once, and never lost.

mod entry_points;
mod fair;
mod once;
mod rpc;

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use windlass::events::{Event, EventFilter, NewEvent};
use windlass::keeper::Duty;
use windlass::schedule::{NewTrigger, Trigger};
use windlass::{DEFAULT_TENANT, Definition, Queue};
use windlass_testing::{TestQueue, eventually};

use crate::schedule::{changes, create};
use crate::support::{Acting, assert_counts_are_exact, job, keeper, until, worker};

/// The definition and the trigger of document 004.
pub(crate) async fn sync_dropbox(queue: &Queue) -> Trigger {
    let schema = json!({"type": "object",
        "properties": {"provider_id": {"type": "string", "format": "uuid"}, "path_prefix": {"type": "string"}},
        "required": ["provider_id"], "additionalProperties": false});
    queue.define(&Definition::new("sync-dropbox").arg_schema(schema)).await.unwrap();
    let template = json!({"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"});
    let new = NewTrigger::event("Resync on folder change", "provider.folder.updated", "sync-dropbox")
        .payload_template(template)
        .dedupe_window_seconds(120);
    create(queue, &new).await
}

pub(crate) fn folder_updated(path: &str) -> NewEvent {
    let payload = json!({"provider_id": "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09", "folder_path": path});
    NewEvent::new("provider.folder.updated").payload(&payload)
}

/// Dispatches all waiting events.
pub(crate) async fn dispatch(queue: &Queue) {
    let keeper = keeper(queue);
    eventually("the outbox is empty", async || {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        let all = queue.events(DEFAULT_TENANT, &EventFilter::default().limit(500)).await.unwrap();
        all.iter().all(|event| !event.is_pending)
    })
    .await;
}

pub(crate) async fn event(queue: &Queue, id: Uuid) -> Event {
    queue.event(DEFAULT_TENANT, id).await.unwrap().unwrap()
}

pub(crate) fn outcomes(event: &Event) -> Vec<(&str, Option<&str>)> {
    event.triggers.iter().map(|one| (one.outcome.as_str(), one.reason.as_deref())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_starts_the_job_of_the_trigger_that_matches() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let trigger = sync_dropbox(&queue).await;
    let emitted = queue.emit(&folder_updated("/photos")).await.unwrap();
    assert!(!emitted.is_duplicate);
    assert!(event(&queue, emitted.id).await.is_pending);
    dispatch(&queue).await;
    let seen = event(&queue, emitted.id).await;
    assert_eq!((outcomes(&seen), seen.triggers[0].trigger_id), (vec![("fired", None)], trigger.id));
    let row = job(&client, seen.triggers[0].job_id.unwrap()).await;
    assert_eq!((&row["source"], &row["source_ref"]), (&json!("event"), &json!(emitted.id)));
    assert_eq!(row["correlation_id"], json!(emitted.id));
    assert_eq!(
        row["payload"],
        json!({"provider_id": "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09", "path_prefix": "/photos"})
    );
    let fires = queue.fires(DEFAULT_TENANT, trigger.id, None, 10).await.unwrap();
    assert_eq!((fires[0].kind.as_str(), fires[0].event_id), ("event", Some(emitted.id)));
    assert_counts_are_exact(&client).await;
}

/// The four of document 004, and a trigger that matches a whole family.
#[tokio::test(flavor = "multi_thread")]
async fn the_specified_events_reach_the_triggers_that_match() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let provider = create(&queue, &NewTrigger::event("all of a provider", "provider.*", "held")).await;
    let large = NewTrigger::event("large", "images.ingest.completed", "held")
        .conditions(json!({"count": {"gte": 100}}));
    let large = create(&queue, &large).await;
    let off = create(&queue, &NewTrigger::event("off", "*", "held").is_enabled(false)).await;
    let mut expected = Vec::new();
    for (name, payload, wanted) in [
        ("provider.folder.updated", json!({"n": 1}), vec![provider.id]),
        ("provider.connection.changed", json!({"n": 2}), vec![provider.id]),
        ("list.created", json!({}), vec![]),
        ("images.ingest.completed", json!({"count": 5}), vec![]),
        ("images.ingest.completed", json!({"count": 100}), vec![large.id]),
    ] {
        let new = NewEvent::new(name).payload(&payload);
        let would: Vec<Uuid> =
            queue.dry_run(DEFAULT_TENANT, &new).await.unwrap().iter().map(|one| one.trigger_id).collect();
        assert_eq!(would, wanted, "the dry run of {name}");
        expected.push((queue.emit(&new).await.unwrap().id, wanted));
    }
    dispatch(&queue).await;
    for (id, wanted) in expected {
        let seen: Vec<Uuid> = event(&queue, id).await.triggers.iter().map(|one| one.trigger_id).collect();
        assert_eq!(seen, wanted);
        assert!(!seen.contains(&off.id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_rendering_is_kept_with_its_reason_and_can_be_retried() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let trigger = sync_dropbox(&queue).await;
    let bare = NewEvent::new("provider.folder.updated");
    let missing = queue.emit(&bare.clone().payload(&json!({"provider_id": Uuid::nil()}))).await.unwrap().id;
    let misfit =
        queue.emit(&bare.payload(&json!({"provider_id": "-x", "folder_path": "/"}))).await.unwrap().id;
    dispatch(&queue).await;
    let reason = event(&queue, missing).await.triggers[0].reason.clone().unwrap();
    assert_eq!(reason, "payload_template/path_prefix: event.folder_path is missing and has no default");
    let reason = event(&queue, misfit).await.triggers[0].reason.clone().unwrap();
    assert!(reason.starts_with("payload/provider_id: "), "{reason}");
    let failed = EventFilter::default().only_failed(true);
    assert_eq!(queue.events(DEFAULT_TENANT, &failed).await.unwrap().len(), 2);

    let retry = async |id| queue.retry_event(DEFAULT_TENANT, id, trigger.id, "tester").await.unwrap();
    assert_eq!(retry(missing).await.unwrap().outcome, "failed", "nothing has changed");
    let template = json!({"payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path | default(\"/\")}}"}});
    queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &changes(template), "tester").await.unwrap();
    let made = retry(missing).await.unwrap();
    assert_eq!(made.outcome, "fired");
    assert_eq!(job(&client, made.job_id.unwrap()).await["payload"]["path_prefix"], json!("/"));
    assert_eq!(retry(missing).await, None, "it no longer has a failure");
    assert_eq!(queue.events(DEFAULT_TENANT, &failed).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_lists_matching_triggers_and_writes_nothing() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let trigger = sync_dropbox(&queue).await;
    let before = crate::support::everything(&client).await;
    let would = queue.dry_run(DEFAULT_TENANT, &folder_updated("/a")).await.unwrap();
    assert_eq!((would[0].trigger_id, would[0].reason.as_deref()), (trigger.id, None));
    assert_eq!(would[0].payload.as_ref().unwrap()["path_prefix"], json!("/a"));
    let would = queue.dry_run(DEFAULT_TENANT, &NewEvent::new("provider.folder.updated")).await.unwrap();
    assert!(would[0].reason.as_deref().unwrap().contains("event.folder_path is missing"));
    assert_eq!(crate::support::everything(&client).await, before);
}

/// With a real worker, which is notified: the keeper and the worker would otherwise check in ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_dispatched_as_soon_as_it_is_committed() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let slow = windlass::keeper::KeeperSettings::default().dispatch(Duration::from_secs(600));
    let sleepy = worker(&queue).keeper(slow).poll_interval(Duration::from_secs(600));
    let worker = sleepy.handler(Acting).start().await.unwrap();
    let new = NewTrigger::event("all", "*", "acting").dedupe_window_seconds(0);
    create(&queue, &new).await;
    let rings =
        "select count(*) from windlass.leader where duty = 'dispatch' and notifies_until > clock_timestamp()";
    eventually("the dispatcher waits", async || crate::support::count(&client, rings).await == 1).await;
    let id = queue.emit(&NewEvent::new("list.created")).await.unwrap().id;
    eventually("it is dispatched", async || !event(&queue, id).await.is_pending).await;
    let made = event(&queue, id).await.triggers[0].job_id.unwrap();
    until(&client, made, "succeeded").await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_events_reach_only_its_own_triggers() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    for tenant in [a, b] {
        queue.create_trigger(tenant, &NewTrigger::event("all", "*", "held"), "tester").await.unwrap();
    }
    let id = queue.emit(&NewEvent::new("list.created").tenant(a)).await.unwrap().id;
    let keeper = keeper(&queue);
    eventually("it is dispatched", async || {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        !queue.event(a, id).await.unwrap().unwrap().is_pending
    })
    .await;
    assert_eq!(queue.event(a, id).await.unwrap().unwrap().triggers.len(), 1);
    assert_eq!(queue.event(b, id).await.unwrap(), None);
    assert!(queue.list(&windlass::job::Filter::new(b)).await.unwrap().jobs.is_empty());
}
