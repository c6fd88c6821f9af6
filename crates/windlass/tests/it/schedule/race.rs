//! Invariant 35: the set of fires is that of the pure function, each once, under any number of schedulers and edits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::{Misfire, Overlap, Schedule};
use windlass::{DEFAULT_TENANT, Queue};
use windlass_testing::TestQueue;

use super::{changes, create, define, each_minute, every_minute, jobs_of, look_back};

async fn scheduler(queue: Queue, stop: Arc<AtomicBool>) {
    let keeper = Keeper::new(queue, KeeperSettings::default());
    while !stop.load(Ordering::Relaxed) {
        keeper.run_once(Duty::Schedule).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_schedulers_fire_every_instant_once() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let mut expected = BTreeSet::new();
    for n in 0..20 {
        let new = every_minute().misfire(Misfire::FireAll).misfire_max(1000).label(n.to_string());
        let trigger = create(&queue, &new).await;
        let first = look_back(&client, &trigger, SignedDuration::from_mins(30)).await;
        let last = first + SignedDuration::from_mins(24);
        client
            .execute("update windlass.job_triggers set ends_at = $2 where id = $1", &[&trigger.id, &last])
            .await
            .unwrap();
        let due = Schedule::new("* * * * *", "UTC").unwrap();
        expected.extend(due.due_in(first - SignedDuration::from_nanos(1), last).map(|due| (trigger.id, due)));
    }
    assert_eq!(expected.len(), 500);
    let stop = Arc::new(AtomicBool::new(false));
    let schedulers: Vec<_> =
        (0..4).map(|_| tokio::spawn(scheduler(queue.queue().clone(), stop.clone()))).collect();
    windlass_testing::eventually("all triggers have ended", async || {
        let open = "select count(*) from windlass.job_triggers where next_due_at is not null";
        crate::support::count(&client, open).await == 0
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    for scheduler in schedulers {
        scheduler.await.unwrap();
    }
    let rows = client.query("select trigger_id, due_at, outcome from windlass.fire", &[]).await.unwrap();
    let fired: Vec<(uuid::Uuid, Timestamp)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(fired.len(), 500);
    assert_eq!(fired.into_iter().collect::<BTreeSet<_>>(), expected);
    let jobs = "select count(*) from windlass.job b join windlass.fire f on f.job_id = b.id and f.trigger_id::text = b.source_ref";
    assert_eq!(crate::support::count(&client, jobs).await, 500, "one job each, and no other");
    assert_eq!(crate::support::count(&client, "select count(*) from windlass.job").await, 500);
}

/// Invariant 39 under load: every fire is of the generation that was current when it committed.
#[tokio::test(flavor = "multi_thread")]
async fn triggers_edited_while_they_fire_never_fire_an_old_generation() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    // The database itself records the generation that was current at each fire's commit.
    client
        .batch_execute(
            "create table public.seen (trigger_id uuid, fired integer, in_force integer);
             create function note() returns trigger language plpgsql security definer as $$ begin
               insert into public.seen select new.trigger_id, new.generation, t.generation from windlass.job_triggers t where t.id = new.trigger_id;
               return null; end $$;
             create constraint trigger note after insert on windlass.fire deferrable initially deferred for each row execute function note()",
        )
        .await
        .unwrap();
    let new = every_minute().misfire(Misfire::FireAll).misfire_max(1000).misfire_window_seconds(86_400 * 30);
    let trigger = create(&queue, &new).await;
    let stop = Arc::new(AtomicBool::new(false));
    let schedulers: Vec<_> =
        (0..2).map(|_| tokio::spawn(scheduler(queue.queue().clone(), stop.clone()))).collect();
    for n in 0..40 {
        let edit = changes(json!({"payload_template": {"n": n}, "label": format!("edit {n}")}));
        match queue.update_trigger(DEFAULT_TENANT, trigger.id, None, &edit, "editor").await {
            Ok(trigger) => drop(look_back(&client, &trigger, SignedDuration::from_hours(2 + n)).await),
            Err(error) => panic!("{error}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    for scheduler in schedulers {
        scheduler.await.unwrap();
    }
    let wrong = "select count(*) from seen where fired <> in_force";
    assert_eq!(crate::support::count(&client, wrong).await, 0);
    assert!(crate::support::count(&client, "select count(*) from seen").await > 100);
    // Every job has the payload of the generation that fired it: edit n created generation n + 2.
    let foreign = "select count(*) from windlass.fire f join windlass.job b on b.id = f.job_id
                    where (b.payload ->> 'n')::integer is distinct from nullif(f.generation - 2, -1)";
    assert_eq!(crate::support::count(&client, foreign).await, 0);
    let twice = "select count(*) from (select due_at, generation from windlass.fire group by 1, 2 having count(*) > 1) d";
    assert_eq!(crate::support::count(&client, twice).await, 0);
}

/// A keeper knows the routes of its schedules for some seconds. What it cannot insert for one tenant is no error of the batch.
#[tokio::test(flavor = "multi_thread")]
async fn schedules_of_others_fire_when_a_tenant_was_suspended_or_got_a_quota_a_moment_ago() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    define(&queue).await;
    let plain = each_minute().overlap(Overlap::Allow);
    let mut triggers = Vec::new();
    for name in ["suspended", "limited", "other"] {
        let tenant = queue.tenant(name).await;
        triggers.push((tenant, queue.create_trigger(tenant, &plain, "tester").await.unwrap()));
    }
    let keeper = crate::support::keeper(&queue);
    let fire = async || {
        for (_, trigger) in &triggers {
            look_back(&client, trigger, SignedDuration::from_mins(1)).await;
            client.execute("delete from windlass.fire where trigger_id = $1", &[&trigger.id]).await.unwrap();
        }
        keeper.run_once(Duty::Schedule).await.unwrap();
    };
    fire().await;
    for (_, trigger) in &triggers {
        assert_eq!(jobs_of(&client, trigger.id).await, 1);
    }
    let changes = [(triggers[0].0, r#"{"status": "suspended"}"#), (triggers[1].0, r#"{"max_queued": 1}"#)];
    for (tenant, change) in changes {
        client
            .execute("select windlass.change_tenant($1, $2::text::jsonb)", &[&tenant, &change])
            .await
            .unwrap();
    }
    fire().await;
    let mut jobs = Vec::new();
    for (_, trigger) in &triggers {
        jobs.push(jobs_of(&client, trigger.id).await);
    }
    assert_eq!(jobs, [1, 1, 2]);
}
