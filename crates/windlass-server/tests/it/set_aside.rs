//! Rows that the keeper skips are shown, with the reason.

use reqwest::Method;
use serde_json::json;
use windlass::admin::INSTALLATION;
use windlass::events::NewEvent;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition};

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
        let note = "select windlass.note_trouble($1, $2, $3, $4)";
        client.execute(note, &[&duty, &tenant, &subject, &reason]).await.unwrap();
        let page = server.admin.get("/ui/overview").await;
        let shown = page.expect_text(200);
        assert!(shown.contains(&subject) && shown.contains(&reason), "{duty}: {shown}");
        client.batch_execute("delete from windlass.trouble").await.unwrap();
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
    queue.emit(&NewEvent::new("a.b").tenant(DEFAULT_TENANT)).await.unwrap();
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    for duty in [Duty::Schedule, Duty::Dispatch, Duty::Fold, Duty::PurgeTenants] {
        keeper.run_once(duty).await.unwrap();
    }
    let page = server.admin.get("/ui/overview").await;
    let shown = page.expect_text(200);
    for (subject, reason) in [
        (schedule.to_string(), "cron"),
        (matching.to_string(), "conditions"),
        ("-7".to_owned(), "cannot be summed"),
        (deleting.to_string(), "under legal hold"),
    ] {
        assert!(shown.contains(&subject) && shown.contains(reason), "{subject}, {reason}: {shown}");
    }
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
