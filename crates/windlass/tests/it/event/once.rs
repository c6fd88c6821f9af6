//! Exactly once per (event, trigger), with any number of dispatchers and dispatches; and the dedupe window of a trigger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass::events::NewEvent;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually};

use super::{dispatch, event, folder_updated, outcomes, sync_dropbox};
use crate::schedule::{changes, create};
use crate::support::count;

#[tokio::test(flavor = "multi_thread")]
async fn many_dispatchers_create_one_job_per_event_and_trigger() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    for n in 0..3 {
        let new = NewTrigger::event(n.to_string(), "load.*", "held").dedupe_window_seconds(0);
        create(&queue, &new).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let dispatchers: Vec<_> = (0..4)
        .map(|_| {
            let (keeper, stop) =
                (Keeper::new(queue.queue().clone(), KeeperSettings::default()), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    keeper.run_once(Duty::Dispatch).await.unwrap();
                }
            })
        })
        .collect();
    for n in 0..200 {
        queue.emit(&NewEvent::new("load.tick").payload(&json!({"n": n}))).await.unwrap();
    }
    eventually("all are dispatched", async || {
        count(&client, "select count(*) from windlass.event_pending").await == 0
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    for dispatcher in dispatchers {
        dispatcher.await.unwrap();
    }
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 600);
    let pairs = "select count(distinct (d.event_id, d.trigger_id)) from windlass.event_dispatch d join windlass.job b on b.id = d.job_id and b.source_ref = d.event_id::text";
    assert_eq!(count(&client, pairs).await, 600);
}

/// A dispatcher that decided and then froze continues after another has dispatched it, or after an edit.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_dispatcher_does_nothing() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let trigger = sync_dropbox(&queue).await;
    let id = queue.emit(&folder_updated("/a")).await.unwrap().id;
    let late = "select dispatched, fired from windlass.dispatch_events(array[$1::uuid], array[$2::uuid], array[1], array[$3::uuid], array[$4::integer],
        array[null::text], array[gen_random_uuid()], array['sync-dropbox'], array['{\"provider_id\": \"x\"}'::jsonb], array['k'], array[0])";
    let write = async |generation: i32| {
        let row = client.query_one(late, &[&DEFAULT_TENANT, &id, &trigger.id, &generation]).await.unwrap();
        (row.get::<_, i32>(0), row.get::<_, i32>(1))
    };
    let edited = changes(json!({"label": "edited"}));
    queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &edited, "x").await.unwrap();
    assert_eq!(write(1).await, (0, 0), "an older generation decides nothing, and the event stays");
    assert!(event(&queue, id).await.is_pending);
    dispatch(&queue).await;
    assert_eq!(write(2).await, (0, 0), "it has left the outbox");
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 1);
}

/// Invariant 23.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_payload_within_the_window_creates_no_job() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let trigger = sync_dropbox(&queue).await;
    let mut ids = Vec::new();
    for path in ["/a", "/b", "/a"] {
        ids.push(queue.emit(&folder_updated(path)).await.unwrap().id);
    }
    dispatch(&queue).await;
    let (first, other, again) =
        (event(&queue, ids[0]).await, event(&queue, ids[1]).await, event(&queue, ids[2]).await);
    assert_eq!(outcomes(&first), [("fired", None)]);
    assert_eq!(outcomes(&other), [("fired", None)], "another payload is not a duplicate");
    assert_eq!(outcomes(&again), [("deduplicated", None)]);
    assert_eq!(again.triggers[0].job_id, first.triggers[0].job_id, "it names the previous job");
    // The window starts at the accepted job, whatever happened to it.
    queue.cancel(DEFAULT_TENANT, first.triggers[0].job_id.unwrap()).await.unwrap();
    let id = queue.emit(&folder_updated("/a")).await.unwrap().id;
    dispatch(&queue).await;
    assert_eq!(outcomes(&event(&queue, id).await), [("deduplicated", None)]);
    client.execute("update windlass.dedupe set until = clock_timestamp()", &[]).await.unwrap();
    let id = queue.emit(&folder_updated("/a")).await.unwrap().id;
    dispatch(&queue).await;
    assert_eq!(outcomes(&event(&queue, id).await), [("fired", None)], "the window is over");
    let off = changes(json!({"dedupe_window_seconds": 0}));
    queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &off, "x").await.unwrap();
    let id = queue.emit(&folder_updated("/a")).await.unwrap().id;
    dispatch(&queue).await;
    assert_eq!(outcomes(&event(&queue, id).await), [("fired", None)]);
}

/// Invariant 23 under a race: the window is a row with a primary key, so the order does not matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_is_held_by_one_job_however_many_dispatchers_race_for_it() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let new = NewTrigger::event("a", "load.*", "held").dedupe_window_seconds(120);
    let trigger = create(&queue, &new).await;
    let other = create(&queue, &new.label("b")).await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(queue.emit(&NewEvent::new("load.tick")).await.unwrap().id);
    }
    // Each event alone and all at once, as if as many dispatchers had taken one each.
    let dispatch = "select fired from windlass.dispatch_events(array[$1::uuid], array[$2::uuid], array[1], array[$3::uuid], array[1],
        array[null::text], array[gen_random_uuid()], array['held'], array['{}'::jsonb], array['trigger ' || $3::text || ' same'], array[120])";
    let mut racing = tokio::task::JoinSet::new();
    for (n, id) in ids.iter().copied().enumerate() {
        let (client, trigger) = (queue.client().await, if n % 2 == 0 { trigger.id } else { other.id });
        racing.spawn(async move {
            let row = client.query_one(dispatch, &[&DEFAULT_TENANT, &id, &trigger]).await.unwrap();
            row.get::<_, i32>(0)
        });
    }
    assert_eq!(racing.join_all().await.iter().sum::<i32>(), 2, "one for each trigger");
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 2);
    let same = "select count(*) from windlass.event_dispatch d join windlass.job b on b.id = d.job_id where d.outcome = 'deduplicated'";
    assert_eq!(count(&client, same).await, 58, "each names the job that holds the window");
    let key =
        "select count(*) from pg_constraint where conrelid = 'windlass.dedupe'::regclass and contype = 'p'
        and pg_get_constraintdef(oid) = 'PRIMARY KEY (tenant_id, dedupe_key)'";
    assert_eq!(count(&client, key).await, 1);
}

/// The dispatcher is dropped at any point of its work, repeatedly; nothing is lost and nothing is duplicated.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_dispatcher_loses_and_duplicates_nothing() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    create(&queue, &NewTrigger::event("a", "*", "held").dedupe_window_seconds(0)).await;
    for n in 0..300 {
        queue.emit(&NewEvent::new("tick").payload(&json!({"n": n}))).await.unwrap();
    }
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    for n in 0..40_u64 {
        let _ = tokio::time::timeout(Duration::from_millis(n), keeper.run_once(Duty::Dispatch)).await;
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()
            and query like '%dispatch_events%'";
        client.execute(end, &[]).await.unwrap();
    }
    eventually("all are dispatched", async || {
        // A closed connection may still be in the pool; the next one works.
        let _ = keeper.run_once(Duty::Dispatch).await;
        count(&client, "select count(*) from windlass.event_pending").await == 0
    })
    .await;
    assert_eq!(count(&client, "select count(distinct source_ref) from windlass.job").await, 300);
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 300);
}
