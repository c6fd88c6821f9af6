//! Editing, pausing, deleting, running now and backfilling.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::schedule::{Misfire, NewTrigger, Schedule};
use windlass::{DEFAULT_TENANT, Error};
use windlass_testing::TestQueue;

use super::{
    changes, create, define, each_minute, every_minute, every_minute_but, fire_all, fires, jobs_of,
    look_back, outcomes,
};
use crate::support::{count, keeper};

/// Invariant 39.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_old_generation_fires_after_the_edit() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute()).await;
    let due = look_back(&client, &trigger, SignedDuration::from_secs(60)).await;
    // A scheduler has decided about the instant and is about to write it when the edit is made.
    let edited = changes(json!({"cron_expr": "0 0 1 1 *"}));
    let new = queue.update_trigger(DEFAULT_TENANT, trigger.id, Some(1), &edited, "tester").await.unwrap();
    assert_eq!(new.generation, 2);
    let late = "select fired + skipped from windlass.fire_triggers(array[$1::uuid], array[$2::uuid], array[1], array[$3::timestamptz], array[null::timestamptz],
        array[1], array[$3::timestamptz], array[null::text], array[gen_random_uuid()], array[null::integer], array[3::smallint], array['held'], array['{}'::jsonb],
        array[0::float8])";
    let written: i32 = client.query_one(late, &[&DEFAULT_TENANT, &trigger.id, &due]).await.unwrap().get(0);
    assert_eq!(written, 0, "the late scheduler finds a newer generation");
    assert_eq!(jobs_of(&client, trigger.id).await, 0);
    assert_eq!(outcomes(&fires(&queue, &trigger).await), ["skipped edited"], "and the instant is recorded");
}

/// An hour of instants is undecided; then the times change, and then the trigger is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn instants_overtaken_by_an_edit_or_a_deletion_are_recorded() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute()).await;
    let first = look_back(&client, &trigger, SignedDuration::from_mins(30)).await;
    let edited = changes(json!({"cron_expr": "*/2 * * * *"}));
    let new = queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &edited, "tester").await.unwrap();
    let recorded = fires(&queue, &trigger).await;
    assert!((30..=31).contains(&recorded.len()), "{}", recorded.len());
    assert_eq!((recorded[0].due_at, recorded[0].generation), (first, Some(1)));
    assert!(outcomes(&recorded).iter().all(|outcome| outcome == "skipped edited"));

    let first = look_back(&client, &new, SignedDuration::from_mins(10)).await;
    queue.delete_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    let deleted =
        "select count(*), min(due_at) from windlass.fire where reason = 'deleted' and generation = 2";
    let row = client.query_one(deleted, &[]).await.unwrap();
    assert_eq!(row.get::<_, Timestamp>(1), first);
    assert!((5..=6).contains(&row.get::<_, i64>(0)));
    let kept = "select count(*) from windlass.job_triggers where deleted_at is not null and not is_enabled and next_due_at is null";
    assert_eq!(count(&client, kept).await, 1, "the row stays, marked, for its history");
    assert_eq!(queue.trigger(DEFAULT_TENANT, trigger.id).await.unwrap(), None);
    assert_eq!(jobs_of(&client, trigger.id).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_keeps_the_schedule_loses_no_instant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute()).await;
    look_back(&client, &trigger, SignedDuration::from_secs(60)).await;
    let edited = changes(json!({"label": "renamed", "payload_template": {"n": 2}}));
    queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &edited, "tester").await.unwrap();
    fire_all(&keeper(&queue)).await;
    let fires = fires(&queue, &trigger).await;
    assert_eq!((outcomes(&fires), fires[0].generation), (vec!["fired".to_owned()], Some(2)));
    let payload: serde_json::Value =
        client.query_one("select payload from windlass.job", &[]).await.unwrap().get(0);
    assert_eq!(payload, json!({"n": 2}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_trigger_does_not_fire_and_resumes_from_now() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &each_minute()).await;
    let edit = async |value: serde_json::Value| {
        queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &changes(value), "tester").await.unwrap()
    };
    let paused = edit(json!({"is_enabled": false})).await;
    assert_eq!(paused.next_due_at, None);
    // An hour passes with a running scheduler, and another without one.
    let first = look_back(&client, &paused, SignedDuration::from_hours(2)).await;
    let ends = "update windlass.job_triggers set ends_at = next_due_at + interval '59 minutes' where id = $1";
    client.execute(ends, &[&trigger.id]).await.unwrap();
    fire_all(&keeper(&queue)).await;
    let recorded = fires(&queue, &trigger).await;
    assert_eq!((recorded.len(), recorded[0].due_at), (60, first));
    let second = "update windlass.job_triggers set ends_at = null, next_due_at = $2 where id = $1";
    client.execute(second, &[&trigger.id, &(first + SignedDuration::from_hours(1))]).await.unwrap();
    let resumed = edit(json!({"is_enabled": true})).await;
    assert!(resumed.next_due_at.unwrap() > Timestamp::now() - SignedDuration::from_secs(2));
    let recorded = fires(&queue, &trigger).await;
    let last = resumed.next_due_at.unwrap() - SignedDuration::from_mins(1);
    let every: Vec<Timestamp> = Schedule::new("* * * * *", "UTC")
        .unwrap()
        .due_in(first - SignedDuration::from_nanos(1), last)
        .collect();
    assert_eq!(
        recorded.iter().map(|fire| fire.due_at).collect::<Vec<_>>(),
        every,
        "each instant of the pause"
    );
    assert!(outcomes(&recorded).iter().all(|outcome| outcome == "skipped paused"));
    assert_eq!(jobs_of(&client, trigger.id).await, 0);
    queue.delete_trigger(DEFAULT_TENANT, trigger.id, Some(resumed.generation), "tester").await.unwrap();
    assert_eq!(queue.trigger(DEFAULT_TENANT, trigger.id).await.unwrap(), None);
    assert!(matches!(
        queue.delete_trigger(DEFAULT_TENANT, trigger.id, None, "x").await,
        Err(Error::Unknown { .. })
    ));
    let audited = "select count(*) from windlass.audit where action like 'trigger.%' and actor = 'tester'";
    assert_eq!(count(&client, audited).await, 4, "created, paused, resumed, deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_edit_is_rejected() {
    let queue = TestQueue::create().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute()).await;
    let edit = |seen, value| {
        let (queue, id, fields) = (queue.queue().clone(), trigger.id, changes(value));
        async move { queue.update_trigger(DEFAULT_TENANT, id, seen, &fields, "tester").await }
    };
    edit(Some(1), json!({"label": "mine"})).await.unwrap();
    assert!(matches!(edit(Some(1), json!({"label": "theirs"})).await, Err(Error::Changed { .. })));
    for (wrong, field) in [
        (json!({"cron_expr": "0 0 31 2 *"}), "cron_expr"),
        (json!({"colour": 1}), "colour"),
        (json!({"overlap": "maybe"}), "overlap"),
        (json!({"label": null}), "label"),
        (json!({"event_name": "a"}), "event_name"),
    ] {
        match edit(None, wrong).await.unwrap_err() {
            Error::Refused { field: refused, .. } => assert_eq!(refused, field),
            other => panic!("{other}"),
        }
    }
    assert!(matches!(
        edit(None, json!({"definition_key": "unknown"})).await,
        Err(Error::UnknownDefinition { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_now_fires_at_once_even_while_paused() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute().is_enabled(false)).await;
    let run = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    assert_eq!(run.outcome, "fired");
    let again = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "tester").await.unwrap();
    assert_ne!(run.job_id, again.job_id);
    assert_eq!(jobs_of(&client, trigger.id).await, 2);
    let fires = fires(&queue, &trigger).await;
    assert!(fires.iter().all(|fire| fire.kind == "manual"));
    let event = NewTrigger::event("e", "a.b", "held").payload_template(json!({"n": "{{event.n}}"}));
    let event = create(&queue, &event).await;
    let run = queue.run_trigger(DEFAULT_TENANT, event.id, Some(json!({"n": 5})), "tester").await.unwrap();
    assert_eq!(run.outcome, "fired");
    let missing = queue.run_trigger(DEFAULT_TENANT, event.id, None, "tester").await.unwrap_err().to_string();
    assert!(missing.contains("event.n is missing"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_fires_only_instants_that_were_not_fired() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    // The current minute may have started within the grace.
    let cron = every_minute_but(0..=2);
    let trigger = NewTrigger::schedule("calm", &cron, "held").misfire(Misfire::Skip).misfire_grace_seconds(1);
    let trigger = create(&queue, &trigger).await;
    let first = look_back(&client, &trigger, SignedDuration::from_mins(10)).await;
    fire_all(&keeper(&queue)).await;
    // One of the range has been fired before, by an older generation.
    let fired = first + SignedDuration::from_mins(2);
    let mark = "update windlass.fire set outcome = 'fired', reason = null, job_id = gen_random_uuid() where due_at = $1";
    client.execute(mark, &[&fired]).await.unwrap();
    queue
        .update_trigger(DEFAULT_TENANT, trigger.id, None, &changes(json!({"label": "n"})), "x")
        .await
        .unwrap();

    let (from, until) = (first - SignedDuration::from_mins(3), first + SignedDuration::from_mins(4));
    let backfill = async |dry_run| {
        queue.backfill(DEFAULT_TENANT, trigger.id, from..=until, dry_run, "tester").await.unwrap()
    };
    let expected: Vec<Timestamp> = Schedule::new("* * * * *", "UTC")
        .unwrap()
        .due_in(from - SignedDuration::from_nanos(1), until)
        .collect();
    let dry: Vec<Timestamp> = backfill(true).await.iter().map(|fire| fire.due_at).collect();
    assert_eq!(dry, expected);
    assert_eq!(jobs_of(&client, trigger.id).await, 0, "a dry run writes nothing");
    let made: Vec<Timestamp> = backfill(false).await.iter().map(|fire| fire.due_at).collect();
    assert_eq!(made.len(), expected.len() - 1);
    assert!(!made.contains(&fired));
    assert!(backfill(false).await.is_empty(), "a repetition changes nothing");
    assert_eq!(jobs_of(&client, trigger.id).await, i64::try_from(made.len()).unwrap());
    // Outside of its dates a trigger has no instants; a backfill reports which of them it skipped, and why.
    let dated = create(&queue, &every_minute().starts_at(from).ends_at(until)).await;
    let minute = SignedDuration::from_mins(1);
    let wide = from - minute..=until + minute;
    let made = queue.backfill(DEFAULT_TENANT, dated.id, wide.clone(), false, "tester").await.unwrap();
    let reasons = |made: &[windlass::schedule::FireOutcome]| {
        let left_out = made.iter().filter_map(|fire| fire.reason.clone()).collect::<Vec<_>>();
        (made.len(), left_out)
    };
    let left_out = vec!["before_start".to_owned(), "after_end".to_owned()];
    assert_eq!(reasons(&made), (expected.len() + 2, left_out.clone()));
    let dry = queue.backfill(DEFAULT_TENANT, dated.id, wide, true, "tester").await.unwrap();
    assert_eq!(reasons(&dry).1, left_out);
    let future = queue.backfill(
        DEFAULT_TENANT,
        trigger.id,
        from..=Timestamp::now() + SignedDuration::from_hours(1),
        true,
        "x",
    );
    assert!(future.await.unwrap_err().to_string().starts_with("until: "));
}
