//! Rows that the keeper skips are shown, with the reason.

use reqwest::Method;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass::events::NewEvent;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, NewJob};

use crate::support::TestServer;

#[tokio::test]
async fn the_overview_shows_a_skipped_row_with_its_reason() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "odd"})).await.expect(201);
    let client = server.queue.client().await;
    let page = async || {
        let response = server.admin.request(Method::GET, "/ui/overview").send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        response.text().await.unwrap()
    };
    assert!(!page().await.contains("Skipped: "));
    // Stored before it was checked, or by hand.
    client.batch_execute(r#"update windlass.job_definitions set backoff = '{"base": 5}'"#).await.unwrap();
    let shown = page().await;
    assert!(shown.contains("Skipped: definition odd: backoff has an unknown field"), "{shown}");
    // Once it is fixed, it is no longer shown.
    client.batch_execute("update windlass.job_definitions set backoff = '{}'").await.unwrap();
    assert!(!page().await.contains("Skipped: "));
}

/// The rows that each duty skips are on the page, with the reason.
#[tokio::test]
async fn the_overview_shows_rows_skipped_by_any_duty() {
    let server = TestServer::start().await;
    let client = server.queue.client().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let trigger = "insert into windlass.job_triggers (tenant_id, id, label, trigger_type, event_name, definition_id)
        select $1, gen_random_uuid(), 'odd', 'event', 'a', id from windlass.job_definitions returning id::text";
    let trigger: String = client.query_one(trigger, &[&DEFAULT_TENANT]).await.unwrap().get(0);
    for duty in Duty::ALL.map(Duty::as_str) {
        // A note of this duty is valid until its trigger is changed or deleted.
        let (tenant, subject) = if duty == "dispatch" {
            (DEFAULT_TENANT, trigger.clone())
        } else {
            (INSTALLATION, format!("row of {duty}"))
        };
        let reason = format!("cannot be done by {duty}");
        let note = "select windlass.note_problem($1, $2, $3, $4)";
        client.execute(note, &[&duty, &tenant, &subject, &reason]).await.unwrap();
        let page = server.admin.get("/ui/overview").await;
        let shown = page.expect_text(200);
        assert!(shown.contains(&subject) && shown.contains(&reason), "{duty}: {shown}");
        client.batch_execute("delete from windlass.problem").await.unwrap();
    }
}

/// Rows that were written past our checks, each of which a duty meets and skips.
#[tokio::test(flavor = "multi_thread")]
async fn the_overview_shows_real_rows_that_duties_skip() {
    let server = TestServer::start().await;
    let (queue, client) = (&server.queue, server.queue.client().await);
    queue.define(&Definition::new("held")).await.unwrap();
    let deleting = queue.tenant("deleting").await;
    let daily = NewTrigger::schedule("daily", "@daily", "held");
    let schedule = queue.create_trigger(DEFAULT_TENANT, &daily, "tester").await.unwrap().id;
    let on_event = NewTrigger::event("odd", "a.b", "held");
    let matching = queue.create_trigger(DEFAULT_TENANT, &on_event, "tester").await.unwrap().id;
    let spoil = format!(
        r#"update windlass.job_triggers set cron_expr = 'now and then', next_due_at = now() - interval '1 minute' where id = '{schedule}';
        update windlass.job_triggers set conditions = '{{"a": {{"like": 5}}}}' where id = '{matching}';
        insert into windlass.total (tenant_id, lane, queued) values ('{DEFAULT_TENANT}', -7, 9223372036854775807);
        insert into windlass.tally (tenant_id, lane, queued) values ('{DEFAULT_TENANT}', -7, 1);
        select windlass.place_hold('{deleting}', null, 'user', '7', 'law', 'tester');
        update windlass.tenants set status = 'deleting' where id = '{deleting}'"#
    );
    client.batch_execute(&spoil).await.unwrap();
    let moved = spoil_jobs(&client).await;
    let huge = queue.tenant("huge").await;
    queue.enqueue(&NewJob::new("held").tenant(huge).queue("uncountable")).await.unwrap();
    let uncountable = "insert into windlass.total (tenant_id, lane, queued)
        select tenant_id, id, 9223372036854775000 from windlass.lane where tenant_id = $1";
    client.execute(uncountable, &[&huge]).await.unwrap();
    queue.define(&Definition::new("unpruned")).await.unwrap();
    let retention =
        r#"update windlass.job_definitions set retention = '{"succeeded": "7d"}' where key = 'unpruned'"#;
    client.batch_execute(retention).await.unwrap();
    queue.emit(&NewEvent::new("a.b").tenant(DEFAULT_TENANT)).await.unwrap();
    let (table, entry) = spoil_partition_and_trail(&client).await;
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    for duty in [
        Duty::Promote,
        Duty::Reap,
        Duty::Expire,
        Duty::Unblock,
        Duty::Unblock,
        Duty::Prune,
        Duty::Sample,
        Duty::Schedule,
        Duty::Dispatch,
        Duty::Fold,
        Duty::PurgeTenants,
        Duty::Partition,
        Duty::Seal,
    ] {
        keeper.run_once(duty).await.unwrap();
    }
    // The page shows five at a time.
    let mut shown = String::new();
    let next = "delete from windlass.problem where duty = (select min(duty) from windlass.problem)";
    loop {
        shown.push_str(server.admin.get("/ui/overview").await.expect_text(200));
        if client.execute(next, &[]).await.unwrap() == 0 {
            break;
        }
    }
    let moved = moved.into_iter().map(|(job, reason)| (job.to_string(), reason));
    for (subject, reason) in moved.chain([
        ("uncountable".to_owned(), "cannot be charted"),
        ("unpruned".to_owned(), "retention"),
        (schedule.to_string(), "cron"),
        (matching.to_string(), "conditions"),
        ("-7".to_owned(), "cannot be summed"),
        (deleting.to_string(), "under legal hold"),
        (table, "not a partition"),
        (entry, "too large to be hashed as one text"),
    ]) {
        assert!(shown.contains(&subject) && shown.contains(reason), "{subject}, {reason}: {shown}");
    }
}

/// A table with the name of tomorrow's partition, and an entry of the audit trail that no text can hold.
async fn spoil_partition_and_trail(client: &Client) -> (String, String) {
    let name = "select 'history' || to_char((now() + interval '1 day') at time zone 'UTC', '_YYYYMMDD')";
    let table: String = client.query_one(name, &[]).await.unwrap().get(0);
    let replaced = format!("drop table windlass.{table}; create table windlass.{table} ()");
    client.batch_execute(&replaced).await.unwrap();
    let entry = "insert into windlass.audit (tenant_id, actor, action, target, detail, before, after)
        select $1, 'large', 'b', 'c', large, large, large from (select to_jsonb(repeat('x', 90000000)) as large) v returning id::text";
    (table, client.query_one(entry, &[&DEFAULT_TENANT]).await.unwrap().get(0))
}

/// Jobs that cannot take their next step, because they are queued or have ended already.
async fn spoil_jobs(client: &Client) -> [(Uuid, &'static str); 4] {
    let enqueue = async |arguments: &str| -> Uuid {
        let call = format!("select id from windlass.enqueue('held', {arguments})");
        client.query_one(&call, &[]).await.unwrap().get(0)
    };
    let claimed = enqueue("queue => 'claimed'").await;
    let claim = "select job_id from windlass.register_worker('w', 'h', '', '{}', '{}', 60, '{}') w,
          windlass.claim(w, gen_random_uuid(), array(select id from windlass.lane where queue = 'claimed'), array[0::bigint], array[1])";
    assert_eq!(client.query_one(claim, &[]).await.unwrap().get::<_, Uuid>(0), claimed);
    let due = enqueue("delay => '1 h'").await;
    let late = enqueue("deadline => now() - interval '1 s'").await;
    let needed = enqueue("queue => 'needed'").await;
    let blocked = enqueue(&format!("depends_on => array['{needed}'::uuid]")).await;
    let spoil = format!(
        "update windlass.deferred set due_at = now() - interval '1 s' where job_id = '{due}';
         insert into windlass.line (tenant_id, job_id, lane, max_attempts, ids)
           select tenant_id, job_id, lane, max_attempts, array[job_id] from windlass.deferred where job_id = '{due}'
           union all select tenant_id, job_id, lane, max_attempts, array[job_id] from windlass.blocked where job_id = '{blocked}';
         insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome)
           select tenant_id, job_id, now(), attempt, lane, 2 from windlass.running where job_id = '{claimed}';
         insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, job_status)
           select tenant_id, id, now(), 0, lane, 4 from windlass.job where id = '{late}';
         update windlass.job_workers set lease_expires_at = now() - interval '1 s';
         delete from windlass.line where '{needed}' = any (ids);
         insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome, job_status)
           select tenant_id, id, now(), 1, lane, 1, 1 from windlass.job where id = '{needed}'"
    );
    client.batch_execute(&spoil).await.unwrap();
    [
        (due, "cannot be queued"),
        (claimed, "cannot be recovered"),
        (late, "cannot be failed"),
        (blocked, "cannot be unblocked"),
    ]
}

/// Written past our checks, as by a restore or by hand.
#[tokio::test(flavor = "multi_thread")]
async fn the_overview_shows_an_event_that_cannot_be_dispatched() {
    let server = TestServer::start().await;
    let client = server.queue.client().await;
    let bad = server.queue.emit(&NewEvent::new("some.thing").tenant(DEFAULT_TENANT)).await.unwrap().id;
    let spoil = "update windlass.event set payload = '{\"n\": 1e400}' where id = $1";
    client.execute(spoil, &[&bad]).await.unwrap();
    let keeper = Keeper::new(server.queue.queue().clone(), KeeperSettings::default());
    keeper.run_once(Duty::Dispatch).await.unwrap();
    let page = server.admin.get("/ui/overview").await;
    let shown = page.expect_text(200);
    assert!(shown.contains(&bad.to_string()) && shown.contains("cannot be dispatched"), "{shown}");
}
