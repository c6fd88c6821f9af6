//! How finished jobs are deleted: by definition and status, by a tenant's own rule, with legal holds, and artifacts first.

mod again;
mod beside;
mod changed;
mod due;
mod holding;
mod progress;
pub(crate) mod retire;
mod skipped;

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::admin::Reach;
use windlass::events::NewEvent;
use windlass::job::{OnTimeout, State};
use windlass::keeper::Duty;
use windlass::retention::HoldOn;
use windlass::{DEFAULT_TENANT, Definition, Error, Queue};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Hand, assert_counts_are_exact, count, ending, job, keeper, status};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A job that ended this many days ago.
async fn ended(hand: &Hand, arguments: &str, detail: Option<Value>, days_ago: i32) -> Uuid {
    let id = hand.enqueue(arguments).await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, detail).await);
    let age =
        "update windlass.history set finished_at = finished_at - make_interval(days => $2) where job_id = $1";
    hand.client.execute(age, &[&id, &days_ago]).await.unwrap();
    id
}

pub(crate) async fn prune(queue: &Queue) {
    let keeper = keeper(queue);
    eventually("all is pruned", async || keeper.run_once(Duty::Prune).await.unwrap().moved == 0).await;
}

pub(crate) async fn statuses(hand: &Hand, jobs: &[Uuid]) -> Vec<String> {
    let mut all = Vec::new();
    for job in jobs {
        all.push(status(&hand.client, *job).await);
    }
    all
}

/// The table of document 001: 30, 30 and 7 days; pending for 24 h is failed; a run of 10 minutes is failed.
#[tokio::test(flavor = "multi_thread")]
async fn the_specified_periods_apply() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tts = Definition::new("multi_role_tts")
        .retention(State::Succeeded, DAY * 30)
        .retention(State::Failed, DAY * 30)
        .retention(State::Canceled, DAY * 7)
        .start_deadline(DAY)
        .timeout(Duration::from_secs(600), OnTimeout::Fail);
    queue.define(&tts).await.unwrap();
    let jobs = [
        ended(&hand, "'multi_role_tts'", None, 29).await,
        ended(&hand, "'multi_role_tts'", None, 31).await,
        ended(&hand, "'multi_role_tts'", Some(ending::failed()), 29).await,
        ended(&hand, "'multi_role_tts'", Some(ending::failed()), 31).await,
    ];
    let mut canceled = Vec::new();
    for days in [6, 8] {
        let id = hand.enqueue("'multi_role_tts'").await;
        hand.cancel(id).await;
        let age = "update windlass.history set finished_at = finished_at - make_interval(days => $2) where job_id = $1";
        hand.client.execute(age, &[&id, &days]).await.unwrap();
        canceled.push(id);
    }
    prune(&queue).await;
    assert_eq!(statuses(&hand, &jobs).await, ["succeeded", "missing", "failed", "missing"]);
    assert_eq!(statuses(&hand, &canceled).await, ["canceled", "missing"]);

    // An orphan: no worker claimed it for a day.
    let orphan = hand.enqueue("'multi_role_tts'").await;
    hand.client
        .execute("update windlass.expiry set expires_at = expires_at - interval '25 hours'", &[])
        .await
        .unwrap();
    keeper(&queue).run_once(Duty::Expire).await.unwrap();
    let row = job(&hand.client, orphan).await;
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("expired")));
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_own_rule_precedes_the_definitions() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY * 7)).await.unwrap();
    queue.define(&Definition::new("other").retention(State::Succeeded, DAY * 7)).await.unwrap();
    let (long, short, never) =
        (queue.tenant("long").await, queue.tenant("short").await, queue.tenant("never").await);
    queue.set_retention(long, Some("held"), State::Succeeded, Some(DAY * 100), "tester").await.unwrap();
    queue.set_retention(short, None, State::Succeeded, Some(DAY), "tester").await.unwrap();
    queue.set_retention(short, Some("other"), State::Succeeded, Some(DAY * 50), "tester").await.unwrap();
    queue.set_retention(never, None, State::Succeeded, None, "tester").await.unwrap();
    let mut jobs = Vec::new();
    for (key, tenant, days) in [
        ("held", DEFAULT_TENANT, 8),
        ("held", DEFAULT_TENANT, 6),
        ("held", long, 8),
        ("held", long, 101),
        ("held", short, 2),
        ("other", short, 8),
        ("held", never, 1000),
    ] {
        jobs.push(ended(&hand, &format!("'{key}', tenant_id => '{tenant}'"), None, days).await);
    }
    prune(&queue).await;
    let seen = statuses(&hand, &jobs).await;
    let deleted: Vec<bool> = seen.iter().map(|status| status == "missing").collect();
    assert_eq!(deleted, [true, false, false, true, true, false, false]);

    let progress = queue.retention_progress().await.unwrap();
    let own =
        progress.iter().find(|rule| rule.tenant_id == Some(short) && rule.definition_key == "held").unwrap();
    assert_eq!((own.purged, own.keep_seconds), (Some(1), 86_400));
    assert!(own.reached.is_some());
    // The rule is removed: the definition's applies again, also to jobs that the old rule had skipped.
    let acting = queue.act(Reach::Tenant(long), &windlass::admin::Actor::default()).await.unwrap();
    acting.clear_retention(Some("held"), "succeeded").await.unwrap();
    acting.commit().await.unwrap();
    prune(&queue).await;
    assert_eq!(status(&hand.client, jobs[2]).await, "missing");
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_under_legal_hold_stay_until_it_is_released() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    let by_job = ended(&hand, "'held'", None, 10).await;
    let by_subject = ended(&hand, "'held', subject_type => 'user', subject_id => '7'", None, 10).await;
    let free = ended(&hand, "'held', subject_type => 'user', subject_id => '8'", None, 10).await;
    let hold = queue.hold(DEFAULT_TENANT, &HoldOn::Job(by_job), "case 12", "counsel").await.unwrap();
    let user = HoldOn::Subject { kind: "user".to_owned(), id: "7".to_owned() };
    queue.hold(DEFAULT_TENANT, &user, "case 12", "counsel").await.unwrap();
    prune(&queue).await;
    assert_eq!(statuses(&hand, &[by_job, by_subject, free]).await, ["succeeded", "succeeded", "missing"]);
    for attempt in [
        queue.purge(DEFAULT_TENANT, &[by_job]).await.map(|_| ()),
        queue.purge_subject(DEFAULT_TENANT, "user", "7").await.map(|_| ()),
    ] {
        assert!(matches!(attempt, Err(Error::Held { .. })), "{attempt:?}");
    }
    queue.release(DEFAULT_TENANT, hold, "counsel").await.unwrap();
    prune(&queue).await;
    assert_eq!(statuses(&hand, &[by_job, by_subject]).await, ["missing", "succeeded"]);

    let tenant = queue.tenant("whole").await;
    let id = ended(&hand, &format!("'held', tenant_id => '{tenant}'"), None, 10).await;
    let hold = queue.hold(tenant, &HoldOn::Tenant, "audit", "counsel").await.unwrap();
    prune(&queue).await;
    assert_eq!(status(&hand.client, id).await, "succeeded");
    assert!(matches!(queue.delete_tenant(tenant, |_| {}).await, Err(Error::Held { .. })));
    queue.release(tenant, hold, "counsel").await.unwrap();
    queue.delete_tenant(tenant, |_| {}).await.unwrap();
    assert!(queue.hold(DEFAULT_TENANT, &HoldOn::Tenant, " ", "x").await.is_err(), "a reason is needed");
}

/// Document 001: the row and its audio file are deleted together.
#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_is_removed_before_its_job() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tts = Definition::new("tts").retention(State::Succeeded, DAY).on_purge("remove-audio");
    queue.define(&tts).await.unwrap();
    queue.define(&Definition::new("remove-audio")).await.unwrap();
    let with = json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": {"path": "a.mp3"}});
    let audio = ended(&hand, "'tts'", Some(with.clone()), 2).await;
    let plain = ended(&hand, "'tts'", None, 2).await;
    prune(&queue).await;
    assert_eq!(statuses(&hand, &[audio, plain]).await, ["succeeded", "missing"], "one waits for its file");
    let cleanup = hand.claim_one().await;
    let row = job(&hand.client, cleanup.job).await;
    assert_eq!(
        row["payload"],
        json!({"job_id": audio, "definition_key": "tts", "artifact": {"path": "a.mp3"}})
    );
    assert_eq!(row["source"], json!("system"));
    assert!(hand.settle(&cleanup, Some(ending::dead_letter())).await);
    prune(&queue).await;
    let reading = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    let waits = reading.purge_waits().await.unwrap();
    assert_eq!((waits[0].job_id, waits[0].cleanup_status.as_deref()), (audio, Some("dead_letter")));
    reading.end().await.unwrap();
    assert_eq!(status(&hand.client, audio).await, "succeeded", "not while its file exists");
    hand.retry(cleanup.job).await;
    let again = hand.claim_one().await;
    assert!(hand.settle(&again, None).await);
    prune(&queue).await;
    assert_eq!(status(&hand.client, audio).await, "missing");
    assert_eq!(count(&hand.client, "select count(*) from windlass.purge_wait").await, 0);

    // No worker can remove it: it stays, and is deleted once one can.
    queue
        .define(&Definition::new("late").retention(State::Succeeded, DAY).on_purge("not-there-yet"))
        .await
        .unwrap();
    let late = ended(&hand, "'late'", Some(with), 2).await;
    keeper(&queue).run_once(Duty::Prune).await.unwrap();
    assert_eq!(status(&hand.client, late).await, "succeeded");
    queue.define(&Definition::new("not-there-yet")).await.unwrap();
    keeper(&queue).run_once(Duty::Prune).await.unwrap();
    let cleanup = hand.claim_one().await;
    assert!(hand.settle(&cleanup, None).await);
    prune(&queue).await;
    assert_eq!(status(&hand.client, late).await, "missing");
    assert_counts_are_exact(&hand.client).await;
}

/// A thousand jobs that ended at one instant and are all under hold must not block later ones.
#[tokio::test(flavor = "multi_thread")]
async fn held_jobs_do_not_block_the_others() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Canceled, DAY)).await.unwrap();
    for n in 0..12 {
        let subject = if n < 8 { "kept" } else { "free" };
        let id = hand.enqueue(&format!("'held', subject_type => 's', subject_id => '{subject}'")).await;
        hand.cancel(id).await;
    }
    let instant = "update windlass.history set finished_at = timestamptz '2026-01-01 00:00Z'";
    hand.client.execute(instant, &[]).await.unwrap();
    let kept = HoldOn::Subject { kind: "s".to_owned(), id: "kept".to_owned() };
    queue.hold(DEFAULT_TENANT, &kept, "r", "x").await.unwrap();
    for _ in 0..3 {
        hand.client.execute("select windlass.prune(3)", &[]).await.unwrap();
    }
    assert_eq!(count(&hand.client, "select count(*) from windlass.jobs").await, 8);
    assert_eq!(count(&hand.client, "select count(*) from windlass.jobs where subject_id = 'free'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_deleted_after_their_period_but_not_before_dispatch() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (brief, held) = (queue.tenant("brief").await, queue.tenant("held").await);
    let acting = queue.act(Reach::Tenant(brief), &windlass::admin::Actor::default()).await.unwrap();
    acting.set_event_retention(Some(DAY)).await.unwrap();
    acting.commit().await.unwrap();
    queue.hold(held, &HoldOn::Tenant, "audit", "x").await.unwrap();
    for tenant in [DEFAULT_TENANT, brief, held] {
        for days in [2, 29, 31] {
            queue.emit(&NewEvent::new("a").tenant(tenant).dedupe_id(format!("{days}"))).await.unwrap();
        }
    }
    // An event's id contains its time.
    let age = "with old as (select e.tenant_id, e.id, windlass.uuid7_floor(now() - e.dedupe_id::integer * interval '1 day') as aged from windlass.event e),
        moved as (update windlass.event e set id = o.aged from old o where e.tenant_id = o.tenant_id and e.id = o.id)
        update windlass.event_pending p set event_id = o.aged from old o where p.tenant_id = o.tenant_id and p.event_id = o.id";
    client.batch_execute(age).await.unwrap();
    let left = async |tenant: Uuid| {
        let query = format!("select count(*) from windlass.event where tenant_id = '{tenant}'");
        count(&client, &query).await
    };
    prune(&queue).await;
    assert_eq!(left(DEFAULT_TENANT).await, 3, "none is dispatched yet");
    let keeper = keeper(&queue);
    let waiting = "select count(*) from windlass.event_pending";
    eventually("all are dispatched", async || {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        count(&client, waiting).await == 0
    })
    .await;
    prune(&queue).await;
    assert_eq!((left(DEFAULT_TENANT).await, left(brief).await, left(held).await), (2, 0, 3));
}

/// A-235: such rules and holds protected nothing, and nothing deleted them.
#[tokio::test(flavor = "multi_thread")]
async fn rules_and_holds_of_unknown_tenants_are_refused() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for unknown in [Uuid::now_v7(), Uuid::nil()] {
        for call in [
            format!("windlass.set_retention('{unknown}', '*', 'failed', 60, false)"),
            format!("windlass.set_retention('{unknown}', '*', 'failed', null, true)"),
            format!("windlass.place_hold('{unknown}', null, null, null, 'case 12', 'counsel')"),
        ] {
            let error = client.query(&format!("select {call}"), &[]).await.unwrap_err();
            let refused = error.as_db_error().unwrap();
            assert_eq!(refused.code().code(), "WL003", "{call}");
            assert_eq!(refused.message(), format!("tenant {unknown} not found"), "{call}");
        }
    }
    let unknown = Uuid::now_v7();
    let kept = queue.set_retention(unknown, None, State::Failed, Some(DAY), "a").await;
    assert!(matches!(kept, Err(Error::TenantRefused { .. })), "{kept:?}");
    let held = queue.hold(unknown, &HoldOn::Tenant, "case 12", "counsel").await;
    assert!(matches!(held, Err(Error::TenantRefused { .. })), "{held:?}");
}

/// A-335: the bound of such a rule is before 1970, which the first 48 bits of an id cannot express.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_kept_for_a_hundred_years_are_not_deleted() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let event = queue.emit(&NewEvent::new("a")).await.unwrap().id;
    client.execute("delete from windlass.event_pending", &[]).await.unwrap();
    let keep = "insert into windlass.retention (tenant_id, definition_key, status, keep_seconds) values ($1, '*', 'event', 3162240000)";
    client.execute(keep, &[&DEFAULT_TENANT]).await.unwrap();
    prune(&queue).await;
    let kept = format!("select count(*) from windlass.event where id = '{event}'");
    assert_eq!(count(&client, &kept).await, 1);
    let bounds = "select array_agg(windlass.uuid7_floor(at::timestamptz) order by ord)
        from unnest(array['-infinity', '1926-01-01Z', '1970-01-01Z', '2026-01-01Z', '9999-01-01Z', '20000-01-01Z', 'infinity'])
          with ordinality i (at, ord)";
    let bounds: Vec<Uuid> = client.query_one(bounds, &[]).await.unwrap().get(0);
    assert!(bounds.is_sorted(), "{bounds:?}");
    assert_eq!((bounds[0], bounds[1], bounds[2]), (Uuid::nil(), Uuid::nil(), Uuid::nil()));
    assert_eq!(bounds[6].as_u128() >> 80, 0xffff_ffff_ffff);
}
