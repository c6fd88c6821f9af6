//! The other duties.

use jiff::SignedDuration;
use serde_json::json;
use uuid::Uuid;
use windlass::events::NewEvent;
use windlass::keeper::Duty;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually};

use super::{assert_shown, set_aside};
use crate::event::{event, outcomes};
use crate::retention::retire;
use crate::schedule::{create, define, every_minute, look_back};
use crate::support::{Hand, count, keeper};

/// Cannot be read, cannot be computed, huge, of a deleted definition, and held by another session.
pub(super) async fn schedule(queue: &TestQueue) {
    define(queue).await;
    let client = queue.client().await;
    let mut triggers = Vec::new();
    for place in 0..6 {
        let trigger = create(queue, &every_minute()).await;
        // The first of them are due first.
        look_back(&client, &trigger, SignedDuration::from_mins(9 - place)).await;
        triggers.push(trigger.id);
    }
    let [orphan, held, huge, unreadable, odd, good] = triggers[..] else { panic!("six were created") };
    let spoil = "update windlass.job_triggers set payload_template = jsonb_build_object('text', repeat('x', 20000000)) where id = $1";
    client.execute(spoil, &[&huge]).await.unwrap();
    // The database allows it only with its checks disabled.
    let spoil = format!(
        "set session_replication_role = replica; update windlass.job_triggers set definition_id = gen_random_uuid() where id = '{orphan}';
         reset session_replication_role"
    );
    client.batch_execute(&spoil).await.unwrap();
    let spoil = "update windlass.job_triggers set cron_expr = 'now and then' where id = $1";
    client.execute(spoil, &[&odd]).await.unwrap();
    let spoil = "update windlass.job_triggers set starts_at = '-infinity', conditions = '[]', dedupe_window_seconds = 0,
        misfire_grace_seconds = 2147483647, jitter_seconds = 0, label = '' where id = $1";
    client.execute(spoil, &[&unreadable]).await.unwrap();
    let spoil = "update windlass.job_triggers set timezone = 'Mars/Base' where id = $1";
    client.execute(spoil, &[&unreadable]).await.unwrap();
    let other = queue.client().await;
    other
        .batch_execute(&format!("begin; select from windlass.job_triggers where id = '{held}' for update"))
        .await
        .unwrap();
    let fires =
        format!("select count(*) from windlass.fire where trigger_id = '{good}' and outcome = 'fired'");
    eventually("the good one fires", async || {
        keeper(queue).run_once(Duty::Schedule).await.unwrap();
        count(&client, &fires).await > 0
    })
    .await;
    eventually("the bad ones are skipped", async || {
        keeper(queue).run_once(Duty::Schedule).await.unwrap();
        set_aside(queue).await.len() >= 2
    })
    .await;
    let fires = format!("select count(*) from windlass.fire where trigger_id not in ('{good}', '{huge}')");
    assert_eq!(count(&client, &fires).await, 0);
    assert_shown(queue, &odd.to_string(), "cron").await;
    assert_shown(queue, &unreadable.to_string(), "timezone").await;
    assert_shown(queue, &orphan.to_string(), "cannot read").await;
    other.batch_execute("rollback").await.unwrap();
    // It is larger than the share of a round, so it waited for those before it.
    let decided = format!("select count(*) from windlass.fire where trigger_id = '{huge}'");
    eventually("the huge one is decided", async || {
        keeper(queue).run_once(Duty::Schedule).await.unwrap();
        count(&client, &decided).await > 0
    })
    .await;
}

/// A trigger whose conditions cannot be read, beside a valid one; an event that is huge, one that cannot be read, one that was
/// deleted, and one that another session holds.
pub(super) async fn dispatch(queue: &TestQueue) {
    define(queue).await;
    let client = queue.client().await;
    let odd = create(queue, &NewTrigger::event("odd", "a.b", "held")).await;
    // All events render the same payload, and each must fire.
    let mut good = NewTrigger::event("good", "a.*", "held");
    good.dedupe_window_seconds = 0;
    let good = create(queue, &good).await;
    let spoil = r#"update windlass.job_triggers set conditions = '{"a": {"like": 5}}' where id = $1"#;
    client.execute(spoil, &[&odd.id]).await.unwrap();
    let emit = async || queue.emit(&NewEvent::new("a.b").payload(&json!({"a": 1}))).await.unwrap().id;
    let (huge, unreadable, deleted) = (emit().await, emit().await, emit().await);
    let (held, id) = (emit().await, emit().await);
    let spoil = "update windlass.event set payload = jsonb_build_object('a', 1, 'text', repeat('x', 20000000)) where id = $1";
    client.execute(spoil, &[&huge]).await.unwrap();
    let spoil = "update windlass.event set payload = '{\"n\": 1e400}' where id = $1";
    client.execute(spoil, &[&unreadable]).await.unwrap();
    client.execute("delete from windlass.event where id = $1", &[&deleted]).await.unwrap();
    let other = queue.client().await;
    let hold = format!("begin; select from windlass.event_pending where event_id = '{held}' for update");
    other.batch_execute(&hold).await.unwrap();
    eventually("it is dispatched", async || {
        keeper(queue).run_once(Duty::Dispatch).await.unwrap();
        !event(queue, id).await.is_pending
    })
    .await;
    other.batch_execute("rollback").await.unwrap();
    eventually("the one that was held is dispatched", async || {
        keeper(queue).run_once(Duty::Dispatch).await.unwrap();
        !event(queue, held).await.is_pending
    })
    .await;
    let dispatched = event(queue, id).await;
    let of = |trigger| dispatched.triggers.iter().position(|one| one.trigger_id == trigger).unwrap();
    assert_eq!(outcomes(&dispatched)[of(good.id)], ("fired", None));
    assert_eq!(outcomes(&dispatched)[of(odd.id)].0, "failed");
    assert_shown(queue, &odd.id.to_string(), "conditions").await;
    assert_shown(queue, &unreadable.to_string(), "cannot be dispatched").await;
    assert!(!event(queue, huge).await.is_pending);
    keeper(queue).run_once(Duty::Dispatch).await.unwrap();
    assert_shown(queue, &deleted.to_string(), "does not exist").await;
    // Once it is fixed, it is dispatched and no longer shown.
    let fix = "with fixed as (update windlass.event set payload = '{}' where id = $1)
        update windlass.event_pending set retry_at = clock_timestamp() where event_id = $1";
    client.execute(fix, &[&unreadable]).await.unwrap();
    eventually("it is dispatched", async || {
        keeper(queue).run_once(Duty::Dispatch).await.unwrap();
        !event(queue, unreadable).await.is_pending
    })
    .await;
    let shown = set_aside(queue).await;
    assert!(!shown.iter().any(|found| found.contains(&unreadable.to_string())), "{shown:#?}");
}

/// Differences that no total can contain, of a lane that does not exist, and some that another session holds.
pub(super) async fn fold(queue: &TestQueue) {
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    queue.enqueue(&windlass::NewJob::new("held")).await.unwrap();
    let spoil = "insert into windlass.total (tenant_id, lane, queued) values ($1, -7, 9223372036854775807)";
    client.execute(spoil, &[&DEFAULT_TENANT]).await.unwrap();
    let spoil =
        "insert into windlass.tally (tenant_id, lane, queued) values ($1, -7, 1), (gen_random_uuid(), -8, 1)";
    client.execute(spoil, &[&DEFAULT_TENANT]).await.unwrap();
    let other = queue.client().await;
    let hold = "begin; insert into windlass.tally (tenant_id, lane, queued) values (gen_random_uuid(), -9, 1); commit;
        begin; select from windlass.tally where lane = -9 for update";
    other.batch_execute(hold).await.unwrap();
    keeper(queue).run_once(Duty::Fold).await.unwrap();
    let left = "select count(*) from windlass.tally";
    assert_eq!(
        count(&client, left).await,
        2,
        "all but the one that cannot be summed and the one that is held"
    );
    other.batch_execute("rollback").await.unwrap();
    keeper(queue).run_once(Duty::Fold).await.unwrap();
    assert_eq!(count(&client, left).await, 1, "it is retried");
    assert_eq!(count(&client, "select queued from windlass.total where lane > 0").await, 1);
    assert_shown(queue, "-7", "cannot be summed").await;
}

/// Invalid rules, jobs that another session or a hold keeps, one that is huge, and one whose body was deleted.
pub(super) async fn prune(queue: &TestQueue) {
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "odd", "retention": {"succeeded": 60}})).await;
    hand.define(json!({"key": "held", "retention": {"succeeded": 60}})).await;
    let mut jobs = Vec::new();
    for key in ["odd", "held", "held", "held", "held", "held"] {
        jobs.push(hand.enqueue(&format!("'{key}'")).await);
    }
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    let spoil = r#"update windlass.history set finished_at = finished_at - interval '1 hour';
        update windlass.job_definitions set retention = '{"succeeded": "7d", "failed": -1, "lost": 5}' where key = 'odd'"#;
    hand.client.batch_execute(spoil).await.unwrap();
    let hold = "select windlass.place_hold($1, $2, null, null, 'law', 'tester')";
    hand.client.execute(hold, &[&DEFAULT_TENANT, &jobs[1]]).await.unwrap();
    let huge =
        "update windlass.job set payload = jsonb_build_object('text', repeat('x', 20000000)) where id = $1";
    hand.client.execute(huge, &[&jobs[3]]).await.unwrap();
    hand.client.execute("delete from windlass.job where id = $1", &[&jobs[4]]).await.unwrap();
    let other = queue.client().await;
    let lock = format!("begin; select from windlass.history where job_id = '{}' for update", jobs[2]);
    other.batch_execute(&lock).await.unwrap();
    let moved = keeper(queue).run_once(Duty::Prune).await.unwrap().moved;
    assert!(
        (2..=3).contains(&moved),
        "{moved}: the good one, the huge one, and what is left of the one without a body"
    );
    let left = "select count(*) from windlass.job";
    assert_eq!(count(&hand.client, left).await, 3);
    assert_shown(queue, "odd", "retention").await;
    other.batch_execute("rollback").await.unwrap();
}

/// Of a tenant that does not exist and as large as a request may be; too large for one JSON value; and one that cannot be read at all.
pub(super) async fn seal(queue: &TestQueue) {
    let client = queue.client().await;
    let sealed = async |count: i64| {
        eventually("all are sealed", async || {
            keeper(queue).run_once(Duty::Seal).await.unwrap();
            self::count(&client, "select count(*) from windlass.audit_seals").await == count
        })
        .await;
    };
    let faults = async || {
        let rows = client.query("select audit_id, problem from windlass.verify_audit()", &[]).await.unwrap();
        rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, String>(1))).collect::<Vec<_>>()
    };
    let write = "insert into windlass.audit (tenant_id, actor, action, target, detail) values
        (gen_random_uuid(), '', '', '', to_jsonb(repeat('x', 1000000))), ($1, 'a', 'b', 'c', 'null')";
    client.execute(write, &[&DEFAULT_TENANT]).await.unwrap();
    let write = "insert into windlass.audit (tenant_id, actor, action, target, detail, before, after)
        select $1, 'large', 'b', 'c', large, large, jsonb_build_object('large', large, 'list', '[1, null, {\"a\": true}]'::jsonb)
          from (select to_jsonb(repeat('x', 90000000)) as large) v returning id";
    let large: i64 = client.query_one(write, &[&DEFAULT_TENANT]).await.unwrap().get(0);
    client
        .execute(
            "insert into windlass.audit (tenant_id, actor, action, target) values ($1, 'a', 'b', 'c')",
            &[&DEFAULT_TENANT],
        )
        .await
        .unwrap();
    sealed(4).await;
    assert_eq!(faults().await, []);
    assert_shown(queue, &large.to_string(), "too large to be hashed as one text").await;

    // The chain verifies such a row like any other, in each of its parts.
    let as_it_was = "update windlass.audit set actor = 'large', after = jsonb_set(after, '{list,0}', '1') where actor in ('large', 'forged')";
    for change in ["actor = 'forged'", "after = jsonb_set(after, '{list,0}', '2')"] {
        for (change, is_found) in [
            (format!("update windlass.audit set {change} where actor = 'large'"), true),
            (as_it_was.to_owned(), false),
        ] {
            let behind =
                format!("set session_replication_role = replica; {change}; reset session_replication_role");
            client.batch_execute(&behind).await.unwrap();
            let expected = (large, "the row or the previous row was changed".to_owned());
            assert_eq!(faults().await, if is_found { vec![expected] } else { vec![] }, "{change}");
        }
    }

    // A row that cannot be read has its position in the chain, and is reported forever.
    let unread = "create or replace function windlass.digest_json(value jsonb) returns bytea language plpgsql
        as 'begin raise program_limit_exceeded; end'";
    client.batch_execute(unread).await.unwrap();
    let again = "insert into windlass.audit (tenant_id, actor, action, target, detail, before, after)
        select tenant_id, 'unread', 'b', 'c', detail, before, after from windlass.audit where actor = 'large' returning id";
    let unread: i64 = client.query_one(again, &[]).await.unwrap().get(0);
    client
        .execute(
            "insert into windlass.audit (tenant_id, actor, action, target) values ($1, 'a', 'b', 'c')",
            &[&DEFAULT_TENANT],
        )
        .await
        .unwrap();
    sealed(6).await;
    assert!(faults().await.contains(&(
        unread,
        "the row could not be read when it was chained; its content cannot be verified".to_owned()
    )));
    client.batch_execute("delete from windlass.problem").await.unwrap();
    assert_shown(queue, &unread.to_string(), "its content cannot be verified").await;
}

/// One tenant under a hold, one that another session holds, one with a huge job, and another.
pub(super) async fn purge_tenants(queue: &TestQueue) {
    let client = queue.client().await;
    let (held, good) = (queue.tenant("held").await, queue.tenant("good").await);
    let (locked, huge) = (queue.tenant("locked").await, queue.tenant("huge").await);
    queue.define(&Definition::new("held")).await.unwrap();
    queue.enqueue(&windlass::NewJob::new("held").tenant(huge)).await.unwrap();
    let spoil = "update windlass.job set payload = jsonb_build_object('text', repeat('x', 20000000)) where tenant_id = $1";
    client.execute(spoil, &[&huge]).await.unwrap();
    let hold = "select windlass.place_hold($1, null, null, null, 'law', 'tester')";
    client.execute(hold, &[&held]).await.unwrap();
    // As if a keeper had visited them: a transaction that starts later keeps none of them.
    let delete = "update windlass.tenants set status = 'deleting', purge_barrier = pg_snapshot_xmax(pg_current_snapshot()),
          updated_at = now() - case slug when 'held' then interval '1 h' else '0' end
        where slug in ('held', 'good', 'locked', 'huge')";
    client.execute(delete, &[]).await.unwrap();
    let other = queue.client().await;
    let lock = format!("begin; select from windlass.tenants where id = '{locked}' for update");
    other.batch_execute(&lock).await.unwrap();
    let left = |tenants: &[Uuid]| {
        let ids: Vec<String> = tenants.iter().map(|id| format!("'{id}'")).collect();
        format!("select count(*) from windlass.tenants where id in ({})", ids.join(", "))
    };
    eventually("the others are deleted", async || {
        keeper(queue).run_once(Duty::PurgeTenants).await.unwrap();
        count(&client, &left(&[good, huge])).await == 0
    })
    .await;
    other.batch_execute("rollback").await.unwrap();
    eventually("the one that was held is deleted", async || {
        keeper(queue).run_once(Duty::PurgeTenants).await.unwrap();
        count(&client, &left(&[locked])).await == 0
    })
    .await;
    assert_eq!(
        count(&client, &format!("select count(*) from windlass.tenants where id = '{held}'")).await,
        1
    );
    assert_shown(queue, &held.to_string(), "legal hold").await;
}

/// A partition with another day's bounds, and a table with the name of another.
pub(super) async fn partition(queue: &TestQueue) {
    let client = queue.client().await;
    let spoil = "do $$
        declare
          day timestamp := date_trunc('day', now() at time zone 'UTC');
          next text := to_char(day + interval '1 day', '_YYYYMMDD');
        begin
          execute format('drop table windlass.%I', 'job' || next);
          execute format('drop table windlass.%I', 'job' || to_char(day + interval '2 days', '_YYYYMMDD'));
          execute format('create table windlass.%I partition of windlass.job for values from (%L) to (%L)', 'job' || next,
            windlass.uuid7_floor((day + interval '1 day 5 hours') at time zone 'UTC'),
            windlass.uuid7_floor((day + interval '2 days 5 hours') at time zone 'UTC'));
          execute format('alter table windlass.%I owner to windlass_owner', 'job' || next);
          execute format('drop table windlass.%I', 'history' || next);
          execute format('create table windlass.%I ()', 'history' || next);
        end $$";
    client.batch_execute(spoil).await.unwrap();
    assert_eq!(
        keeper(queue).run_once(Duty::Partition).await.unwrap().moved,
        1,
        "the rest of the day after it"
    );
    let day: String = client
        .query_one("select to_char((now() + interval '1 day') at time zone 'UTC', '_YYYYMMDD')", &[])
        .await
        .unwrap()
        .get(0);
    assert_shown(queue, &format!("job{day}"), "not the time in its name").await;
    assert_shown(queue, &format!("history{day}"), "not a partition").await;
}

/// A job whose end cannot be added to, in a partition that is replaced: it stays, and the others go.
pub(super) async fn retire_partition() {
    let (queue, hand) = retire::aged().await;
    let (bad, good) = (retire::end_old(&hand, "", None).await, retire::end_old(&hand, "", None).await);
    let spoil = "update windlass.history set finished_at = '294276-12-31 23:59:59Z' where job_id = $1";
    hand.client.execute(spoil, &[&bad]).await.unwrap();
    retire::until_step(&hand.client, "dropped").await;
    let left = "select id from windlass.job where id = any ($1)";
    let left: Vec<Uuid> =
        hand.client.query(left, &[&vec![bad, good]]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [bad]);
    drop(queue);
}

/// History of a lane that does not exist, at a time that cannot be summed, and that another session holds; counters that no chart can show.
pub(super) async fn sample(queue: &TestQueue) {
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let spoil = "update windlass.history set finished_at = finished_at - interval '20 s';
        insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome)
        select gen_random_uuid(), gen_random_uuid(), t.at, 1, -9, 1 from (values (timestamptz '-infinity'), ('infinity'), (now() - interval '20 s')) t (at)";
    hand.client.batch_execute(spoil).await.unwrap();
    hand.client
        .batch_execute("insert into windlass.keeper_mark (duty, reached) values ('activity', date_bin('15 s', now(), 'epoch') - interval '1 min')")
        .await
        .unwrap();
    let huge = queue.tenant("huge").await;
    for queue_name in ["one", "two"] {
        let job = windlass::NewJob::new("held").tenant(huge).queue(queue_name).priority(1);
        queue.enqueue(&job).await.unwrap();
        queue.enqueue(&job.priority(2)).await.unwrap();
    }
    let spoil = "insert into windlass.total (tenant_id, lane, queued)
        select n.tenant_id, n.id, 9223372036854775807 from windlass.lane n where n.tenant_id = $1 and n.queue = 'two'";
    hand.client.execute(spoil, &[&huge]).await.unwrap();
    let other = queue.client().await;
    other.batch_execute("begin; select from windlass.history for update").await.unwrap();
    keeper(queue).run_once(Duty::Sample).await.unwrap();
    other.batch_execute("rollback").await.unwrap();
    assert_shown(queue, "two", "cannot be charted").await;
    let charted =
        format!("select queued from windlass.activity where tenant_id = '{huge}' and queue = 'one'");
    assert_eq!(count(&hand.client, &charted).await, 2);
    let sum = "select sum(succeeded)::bigint from windlass.activity where tenant_id = '00000000-0000-7000-8000-000000000001'";
    assert_eq!(count(&hand.client, sum).await, 1);
}
