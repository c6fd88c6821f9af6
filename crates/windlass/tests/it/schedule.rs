//! Schedules: what fires, what does not, and that everything is recorded.

mod edit;
pub(crate) mod large;
mod overlap;
mod overtaken;
mod race;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::{Duty, Keeper};
use windlass::schedule::{Fire, Misfire, NewTrigger, Schedule, Trigger};
use windlass::{DEFAULT_TENANT, Definition, Error, Queue};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Acting, assert_counts_are_exact, count, job, keeper, until, worker};

/// A definition for triggers to start, with its own arguments.
pub(crate) async fn define(queue: &Queue) {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    queue.define(&Definition::new("held").arg_schema(schema)).await.unwrap();
}

/// Every minute so far. None starts while a test runs: it would be one instant more than the test counts.
pub(crate) fn every_minute() -> NewTrigger {
    NewTrigger::schedule("every minute", every_minute_but(1..=2), "held")
}

/// Really every minute, for tests that look back further than an hour or allow one more.
pub(crate) fn each_minute() -> NewTrigger {
    NewTrigger::schedule("every minute", "* * * * *", "held")
}

thread_local! {
    /// When this test started. Its schedules count from here: a minute that starts while it runs changes none of its figures.
    /// Each test has its own thread.
    static BEGAN: Timestamp = Timestamp::now();
}

/// Every minute but some, counted from the one in which the test started.
pub(crate) fn every_minute_but(left_out: std::ops::RangeInclusive<i64>) -> String {
    let now = BEGAN.with(|began| began.as_second() / 60);
    let left_out: Vec<i64> = left_out.map(|minute| (now + minute) % 60).collect();
    let minutes: Vec<String> =
        (0..60).filter(|minute| !left_out.contains(minute)).map(|minute| minute.to_string()).collect();
    format!("{} * * * *", minutes.join(","))
}

pub(crate) async fn create(queue: &Queue, new: &NewTrigger) -> Trigger {
    queue.create_trigger(DEFAULT_TENANT, new, "tester").await.unwrap()
}

/// Sets the scheduler's last run to this long before the test started. Returns the first instant since.
pub(crate) async fn look_back(client: &Client, trigger: &Trigger, ago: SignedDuration) -> Timestamp {
    let fields = &trigger.fields;
    let schedule =
        Schedule::new(fields.cron_expr.as_deref().unwrap(), fields.timezone.as_deref().unwrap()).unwrap();
    let first = schedule.next_after(BEGAN.with(|began| *began - ago)).unwrap();
    let set = "update windlass.job_triggers set next_due_at = $2 where id = $1";
    client.execute(set, &[&trigger.id, &first]).await.unwrap();
    first
}

/// Processes everything that is due.
pub(crate) async fn fire_all(keeper: &Keeper) {
    eventually("nothing more is due", async || {
        let round = keeper.run_once(Duty::Schedule).await.unwrap();
        round.moved == 0 && round.next.is_none_or(|next| next > Duration::from_millis(500))
    })
    .await;
}

pub(crate) async fn fires(queue: &Queue, trigger: &Trigger) -> Vec<Fire> {
    let mut fires = queue.fires(DEFAULT_TENANT, trigger.id, None, 500).await.unwrap();
    fires.reverse();
    fires
}

pub(crate) fn outcomes(fires: &[Fire]) -> Vec<String> {
    fires
        .iter()
        .map(|fire| match &fire.reason {
            Some(reason) => format!("{} {reason}", fire.outcome),
            None => fire.outcome.clone(),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_schedule_creates_a_job_with_its_payload_and_source() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let template = json!({"n": 7, "at": "{{schedule.due_at}}", "local": "{{schedule.local}}", "by": "{{trigger.label}}"});
    // The zone's minutes are half an hour ahead of ours.
    let new = every_minute()
        .payload_template(template)
        .timezone("Asia/Kolkata")
        .cron_expr(every_minute_but(31..=32));
    let trigger = create(&queue, &new).await;
    assert!(trigger.next_due_at.unwrap() > Timestamp::now() - SignedDuration::from_secs(1));
    let due = look_back(&client, &trigger, SignedDuration::from_secs(60)).await;
    fire_all(&keeper(&queue)).await;
    let fired = fires(&queue, &trigger).await;
    assert_eq!((outcomes(&fired), fired[0].due_at), (vec!["fired".to_owned()], due));
    let row = job(&client, fired[0].job_id.unwrap()).await;
    assert_eq!((&row["source"], &row["source_ref"]), (&json!("schedule"), &json!(trigger.id.to_string())));
    assert_eq!((&row["payload"]["n"], &row["payload"]["by"]), (&json!(7), &json!("every minute")));
    assert_eq!(row["payload"]["at"], json!(due));
    assert!(row["payload"]["local"].as_str().unwrap().ends_with("+05:30"));
    let next = queue.trigger(DEFAULT_TENANT, trigger.id).await.unwrap().unwrap().next_due_at.unwrap();
    assert_eq!(next, due + SignedDuration::from_mins(3), "the two minutes in between are skipped");
    assert_counts_are_exact(&client).await;
}

/// Document 004's default window of 300 s would have suppressed four of five.
#[tokio::test(flavor = "multi_thread")]
async fn every_minute_with_the_default_settings_fires_every_minute() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &each_minute()).await;
    assert_eq!(trigger.fields.dedupe_window_seconds, 300, "the specified default");
    let keeper = keeper(&queue);
    // Five minutes pass, one at a time, as with a running scheduler.
    for minute in (1..=5).rev() {
        let now = Timestamp::now() - SignedDuration::from_mins(minute) + SignedDuration::from_secs(30);
        let first = Schedule::new("* * * * *", "UTC")
            .unwrap()
            .next_after(now - SignedDuration::from_mins(1))
            .unwrap();
        let set = "update windlass.job_triggers set next_due_at = $2, misfire_grace_seconds = 3600, ends_at = $3 where id = $1";
        let ends = first + SignedDuration::from_secs(59);
        client.execute(set, &[&trigger.id, &first, &ends]).await.unwrap();
        keeper.run_once(Duty::Schedule).await.unwrap();
    }
    assert_eq!(outcomes(&fires(&queue, &trigger).await), ["fired"; 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_instants_follow_the_policy_and_skipped_ones_are_shown() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let hour = SignedDuration::from_hours(1);
    for (misfire, wanted) in [(Misfire::Skip, 0), (Misfire::FireOnce, 1), (Misfire::FireAll, 60)] {
        let trigger = create(&queue, &each_minute().misfire(misfire).misfire_grace_seconds(1)).await;
        look_back(&client, &trigger, hour).await;
        fire_all(&keeper(&queue)).await;
        let fires = fires(&queue, &trigger).await;
        assert!((60..=61).contains(&fires.len()), "{misfire:?}: {}", fires.len());
        let fired = fires.iter().filter(|fire| fire.outcome == "fired").count();
        // The minute may change while this runs, and that instant is in time.
        assert!((wanted..=wanted + 1).contains(&fired), "{misfire:?}: {fired}");
        let skipped = fires.iter().filter(|fire| fire.outcome == "skipped");
        assert!(skipped.clone().all(|fire| fire.reason.as_deref() == Some("misfire")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_backlog_is_processed_without_loss() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &each_minute()).await;
    let first = look_back(&client, &trigger, SignedDuration::from_hours(50)).await;
    fire_all(&keeper(&queue)).await;
    let rows = "select count(*), count(distinct due_at), min(due_at), max(due_at), count(*) filter (where outcome = 'fired') from windlass.fire";
    let row = client.query_one(rows, &[]).await.unwrap();
    let (all, distinct, from, to): (i64, i64, Timestamp, Timestamp) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!((all, from), (distinct, first));
    assert_eq!(all, to.duration_since(from).as_mins() + 1, "no minute is missing");
    assert!(all >= 3000 && (1..=2).contains(&row.get::<_, i64>(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_payload_is_reported_and_blocks_nothing_else() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    queue.define(&Definition::new("off")).await.unwrap();
    let bad = create(&queue, &every_minute().payload_template(json!({"n": "{{trigger.label}}"}))).await;
    let off = create(&queue, &every_minute().definition_key("off")).await;
    let good = create(&queue, &every_minute()).await;
    client
        .execute("update windlass.job_definitions set is_active = false where key = 'off'", &[])
        .await
        .unwrap();
    for trigger in [&bad, &off, &good] {
        look_back(&client, trigger, SignedDuration::from_secs(60)).await;
    }
    fire_all(&keeper(&queue)).await;
    assert_eq!(outcomes(&fires(&queue, &good).await), ["fired"]);
    let reason = outcomes(&fires(&queue, &bad).await);
    assert!(reason[0].starts_with("skipped payload/n: "), "{reason:?}");
    assert_eq!(outcomes(&fires(&queue, &off).await), ["skipped the definition \"off\" is not active"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jitter_delays_the_start_and_not_the_instant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let trigger = create(&queue, &every_minute().jitter_seconds(3600)).await;
    let due = look_back(&client, &trigger, SignedDuration::from_secs(60)).await;
    fire_all(&keeper(&queue)).await;
    let fire = fires(&queue, &trigger).await.remove(0);
    let row = job(&client, fire.job_id.unwrap()).await;
    assert_eq!((fire.due_at, &row["status"]), (due, &json!("scheduled")));
    let starts: Timestamp = row["scheduled_for"].as_str().unwrap().parse().unwrap();
    assert!(starts > due && starts < due + SignedDuration::from_secs(3700));
    // The fire contains its delay; the rest is the time until it was fired.
    let moved = SignedDuration::from_secs_f64(fire.jitter_seconds);
    assert!(fire.jitter_seconds > 0.0 && fire.jitter_seconds <= 3600.0);
    let rest = starts.duration_since(fire.due_at + moved);
    assert!((0..100).contains(&rest.as_secs()), "{rest:?}");
}

/// With a real worker: the job starts within a second of the instant, and the instant is not known before.
#[tokio::test(flavor = "multi_thread")]
async fn a_due_job_starts_within_a_second_of_its_instant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Acting).start().await.unwrap();
    let mut started = Vec::new();
    for _ in 0..3 {
        let trigger = create(&queue, &every_minute().definition_key("acting")).await;
        // A minute is long, so the next one is set to start in half a second.
        let soon = "update windlass.job_triggers set next_due_at = clock_timestamp() + interval '500 ms' where id = $1 returning next_due_at";
        let due: Timestamp = client.query_one(soon, &[&trigger.id]).await.unwrap().get(0);
        let mut seen = Vec::new();
        eventually("it fires", async || {
            seen = fires(&queue, &trigger).await;
            !seen.is_empty()
        })
        .await;
        let row = until(&client, seen[0].job_id.unwrap(), "succeeded").await;
        let start: Timestamp = row["started_at"].as_str().unwrap().parse().unwrap();
        started.push(start.duration_since(due).as_millis());
    }
    worker.stop().await.unwrap();
    assert!(
        started.iter().all(|late| (0..1000).contains(late)),
        "milliseconds after the instant: {started:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_uses_the_triggers_zone_and_dates() {
    let queue = TestQueue::create().await;
    define(&queue).await;
    let berlin = NewTrigger::schedule("nightly", "30 2 * * *", "held")
        .timezone("Europe/Berlin")
        .starts_at("2030-03-29T12:00:00Z".parse().unwrap())
        .ends_at("2030-04-01T12:00:00Z".parse().unwrap());
    let trigger = create(&queue, &berlin).await;
    let runs = queue.preview(DEFAULT_TENANT, trigger.id, 5).await.unwrap();
    let local: Vec<&str> = runs.iter().map(|run| run.local.as_str()).collect();
    assert_eq!(
        local,
        ["2030-03-30T02:30:00+01:00", "2030-03-31T03:00:00+02:00", "2030-04-01T02:30:00+02:00"]
    );
    assert_eq!(serde_json::to_value(&runs[1]).unwrap()["clock_change"], json!("moved_past_gap"));
    assert_eq!(trigger.next_due_at, Some(runs[0].due_at));
    // Without a zone the tenant's is used.
    let tenant = queue.tenant("berlin").await;
    queue
        .client()
        .await
        .execute("update windlass.tenants set timezone = 'America/New_York' where id = $1", &[&tenant])
        .await
        .unwrap();
    let trigger = queue.create_trigger(tenant, &every_minute(), "tester").await.unwrap();
    assert_eq!(trigger.fields.timezone.as_deref(), Some("America/New_York"));
    let runs = queue.preview_schedule(tenant, "@daily", None, 1).await.unwrap();
    assert!(runs[0].local.ends_with("-05:00") || runs[0].local.ends_with("-04:00"));
}

/// Document 004's nightly sync: the definition's key and a template, and nothing else is overridden.
#[tokio::test(flavor = "multi_thread")]
async fn the_nightly_example_sets_only_the_values_of_its_template() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let sync = Definition::new("sync-dropbox").max_attempts(7).queue("sync").priority(42);
    queue.define(&sync).await.unwrap();
    let nightly = NewTrigger::schedule("Nightly provider sync", "0 2 * * *", "sync-dropbox")
        .timezone("America/New_York")
        .payload_template(json!({"path_prefix": "/"}));
    let trigger = create(&queue, &nightly).await;
    look_back(&client, &trigger, SignedDuration::from_hours(24)).await;
    fire_all(&keeper(&queue)).await;
    let fire = fires(&queue, &trigger).await.remove(0);
    let row = job(&client, fire.job_id.unwrap()).await;
    assert_eq!(row["payload"], json!({"path_prefix": "/"}));
    assert_eq!(
        (&row["max_attempts"], &row["queue"], &row["priority"]),
        (&json!(7), &json!("sync"), &json!(42)),
        "the definition's own"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_are_indexed_by_tenant_and_by_event_name() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let indexes = "select string_agg(indexdef, '; ' order by indexname) from pg_indexes where schemaname = 'windlass' and tablename = 'job_triggers'";
    let indexes: String = client.query_one(indexes, &[]).await.unwrap().get(0);
    for wanted in [
        "(tenant_id, is_enabled)",
        "(event_name) WHERE (trigger_type = 'event'",
        "(next_due_at) WHERE (next_due_at IS NOT NULL)",
    ] {
        assert!(indexes.contains(wanted), "{wanted} is not among {indexes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_trigger_is_not_found() {
    let queue = TestQueue::create().await;
    define(&queue).await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let trigger = queue.create_trigger(a, &every_minute(), "tester").await.unwrap();
    let unknown = |error: Error| matches!(error, Error::Unknown { .. });
    assert_eq!(queue.trigger(b, trigger.id).await.unwrap(), None);
    assert!(unknown(queue.preview(b, trigger.id, 1).await.unwrap_err()));
    assert!(unknown(queue.run_trigger(b, trigger.id, None, "x").await.unwrap_err()));
    assert!(unknown(queue.delete_trigger(b, trigger.id, None, "x").await.unwrap_err()));
    assert!(unknown(
        queue.update_trigger(b, trigger.id, None, &serde_json::Map::new(), "x").await.unwrap_err()
    ));
    assert!(queue.triggers(b, None, None, 10, 0).await.unwrap().is_empty());
    assert!(queue.fires(b, trigger.id, None, 10).await.unwrap().is_empty());
    assert_eq!(queue.triggers(a, None, None, 10, 0).await.unwrap(), [trigger]);
}

pub(crate) async fn jobs_of(client: &Client, trigger: Uuid) -> i64 {
    count(client, &format!("select count(*) from windlass.job where source_ref = '{trigger}'")).await
}

pub(crate) fn changes(value: Value) -> serde_json::Map<String, Value> {
    serde_json::from_value(value).unwrap()
}
