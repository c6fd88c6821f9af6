//! `/api/v1/jobs/triggers` and `/api/v1/events`, as document 004 specifies them, with the additions of the design.

use serde_json::{Value, json};
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use crate::support::{Client, TestServer};

/// A server with the definition of document 004, a tenant, and an admin of it.
async fn server() -> (TestServer, Client, uuid::Uuid) {
    let server = TestServer::start().await;
    let body = json!({
        "key": "sync-dropbox", "description": "Sync provider updates for tenant",
        "arg_schema": {"type": "object",
            "properties": {"provider_id": {"type": "string", "format": "uuid"}, "path_prefix": {"type": "string"}},
            "additionalProperties": false},
        "timeout_seconds": 3600, "max_attempts": 3
    });
    server.admin.post("/api/v1/admin/jobs/definitions", &body).await.expect(201);
    let tenant = server.queue.tenant("bcg").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    (server, admin, tenant)
}

fn event_trigger() -> Value {
    json!({
        "label": "Resync on folder change", "trigger_type": "event", "event_name": "provider.folder.updated",
        "definition_key": "sync-dropbox",
        "payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
        "dedupe_window_seconds": 120
    })
}

fn schedule_trigger() -> Value {
    json!({
        "label": "Nightly provider sync", "trigger_type": "schedule", "cron_expr": "0 2 * * *",
        "timezone": "America/New_York", "definition_key": "sync-dropbox", "payload_template": {"path_prefix": "/"}
    })
}

#[tokio::test]
async fn triggers_are_created_with_the_specified_bodies() {
    let (server, admin, tenant) = server().await;
    for body in [event_trigger(), schedule_trigger()] {
        let response = admin.post("/api/v1/jobs/triggers", &body).await;
        let made = response.expect(201);
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
        assert_eq!(made["tenant_id"], tenant.to_string());
        assert_eq!((&made["is_enabled"], &made["generation"]), (&json!(true), &json!(1)));
        assert_eq!(response.header("etag"), Some("\"1\""));
        let place = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
        assert_eq!(response.header("location"), Some(place.as_str()));
        assert_eq!(admin.get(&place).await.expect(200), made);
        let is_schedule = body["trigger_type"] == "schedule";
        assert_eq!(made["next_due_at"].is_string(), is_schedule);
        assert_eq!(made["in_words"].is_string(), is_schedule);
    }
    let listed = admin.get("/api/v1/jobs/triggers").await.expect(200);
    assert_eq!(listed["triggers"].as_array().unwrap().len(), 2);
    let page = admin.get("/api/v1/jobs/triggers?limit=1").await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = admin.get(&format!("/api/v1/jobs/triggers?limit=5&cursor={cursor}")).await.expect(200);
    assert_eq!(rest["triggers"].as_array().unwrap().len(), 1);
    let only = admin.get("/api/v1/jobs/triggers?trigger_type=event").await.expect(200);
    assert_eq!(only["triggers"][0]["trigger_type"], "event");
    drop(server);
}

/// The document's nightly sync: a key, a cron expression and a template. Everything else is from the definition, or a default.
#[tokio::test]
async fn a_trigger_takes_other_values_from_the_definition() {
    let (server, admin, _) = server().await;
    let policy = json!({"max_attempts": 4, "priority": 70, "queue": "sync"});
    let listed = server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
    let id = listed["definitions"][0]["id"].as_str().unwrap().to_owned();
    server.admin.patch(&format!("/api/v1/admin/jobs/definitions/{id}"), &policy).await.expect(200);
    let made = admin.post("/api/v1/jobs/triggers", &schedule_trigger()).await.expect(201);
    let given =
        [("is_enabled", json!(true)), ("dedupe_window_seconds", json!(300)), ("misfire", json!("fire_once"))];
    for (field, value) in given {
        assert_eq!(made[field], value, "{field}");
    }
    let run = format!("/api/v1/jobs/triggers/{}/run", made["id"].as_str().unwrap());
    let fired = admin.post(&run, &json!({})).await.expect(201);
    let job = admin.get(&format!("/api/v1/jobs/{}", fired["job_id"].as_str().unwrap())).await.expect(200);
    assert_eq!(job["payload"], json!({"path_prefix": "/"}));
    for (field, value) in policy.as_object().unwrap() {
        assert_eq!(&job[field], value, "{field} is the definition's");
    }
    drop(server);
}

#[tokio::test]
async fn an_invalid_trigger_is_rejected_with_its_place() {
    let (server, admin, _) = server().await;
    let with = |base: Value, field: &str, value: Value| {
        let mut body = base;
        body[field] = value;
        body
    };
    let refused = [
        (with(schedule_trigger(), "cron_expr", json!("0 0 31 2 *")), "/cron_expr"),
        (with(schedule_trigger(), "cron_expr", json!("0 0 2 * * *")), "/cron_expr"),
        (with(schedule_trigger(), "timezone", json!("Mars/Base")), "/timezone"),
        (with(schedule_trigger(), "event_name", json!("a")), "/event_name"),
        (with(schedule_trigger(), "overlap", json!("maybe")), "/overlap"),
        (with(schedule_trigger(), "colour", json!("red")), "/colour"),
        (with(schedule_trigger(), "definition_key", json!("nothing")), "/definition_key"),
        (with(schedule_trigger(), "starts_at", json!("tomorrow")), "/starts_at"),
        (with(event_trigger(), "event_name", json!("no spaces")), "/event_name"),
        (with(event_trigger(), "payload_template", json!({"a": "{{secrets.x}}"})), "/payload_template/a"),
    ];
    for (body, place) in refused {
        let problem = admin.post("/api/v1/jobs/triggers", &body).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], place, "{problem}");
    }
    drop(server);
}

#[tokio::test]
async fn an_edit_needs_the_current_generation() {
    let (server, admin, _) = server().await;
    let made = admin.post("/api/v1/jobs/triggers", &schedule_trigger()).await.expect(201);
    let place = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    let response = admin.with("if-match", "\"1\"").patch(&place, &json!({"is_enabled": false})).await;
    let paused = response.expect(200);
    assert_eq!((&paused["is_enabled"], &paused["next_due_at"]), (&json!(false), &Value::Null));
    assert_eq!(response.header("etag"), Some("\"2\""));
    admin
        .with("if-match", "\"1\"")
        .patch(&place, &json!({"label": "x"}))
        .await
        .problem(412, "precondition-failed");
    admin.with("if-match", "\"1\"").delete(&place).await.problem(412, "precondition-failed");
    let problem = admin.patch(&place, &json!({"cron_expr": "never"})).await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/cron_expr");
    admin.with("if-match", "\"2\"").delete(&place).await.expect(204);
    admin.get(&place).await.problem(404, "not-found");
    drop(server);
}

#[tokio::test]
async fn a_schedule_can_be_previewed_run_and_backfilled() {
    let (server, admin, _) = server().await;
    let made = admin.post("/api/v1/jobs/triggers", &schedule_trigger()).await.expect(201);
    let place = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    let preview = admin.get(&format!("{place}/preview?count=3")).await.expect(200);
    assert_eq!(preview["runs"].as_array().unwrap().len(), 3);
    assert_eq!(preview["in_words"], "at 02:00");
    assert_eq!(preview["runs"][0]["due_at"], made["next_due_at"]);
    let unsaved = json!({"cron_expr": "*/15 * * * *", "timezone": "Europe/Berlin", "count": 2});
    let preview = admin.post("/api/v1/jobs/triggers/preview", &unsaved).await.expect(200);
    assert_eq!(preview["runs"].as_array().unwrap().len(), 2);
    admin.get(&format!("{place}/preview?count=0")).await.problem(422, "invalid");

    let once = admin.with("idempotency-key", "once");
    let ran = once.post(&format!("{place}/run"), &json!({})).await.expect(201);
    assert_eq!(ran["outcome"], "fired");
    let again = once.post(&format!("{place}/run"), &json!({})).await;
    assert_eq!(again.expect(201), ran, "the same request is the same run");
    let job = admin.get(&format!("/api/v1/jobs/{}", ran["job_id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&job["payload"], &job["source_ref"]), (&json!({"path_prefix": "/"}), &made["id"]));

    let range = json!({"from": "2026-11-01T00:00:00Z", "until": "2026-11-04T00:00:00Z", "dry_run": true});
    let dry = admin.post(&format!("{place}/backfill"), &range).await.expect(200);
    assert_eq!(dry["fires"].as_array().unwrap().len(), 3);
    let range = json!({"from": "2026-11-01T00:00:00Z", "until": "2026-11-04T00:00:00Z"});
    let filled = admin.post(&format!("{place}/backfill"), &range).await.expect(200);
    assert!(filled["fires"].as_array().unwrap().iter().all(|fire| fire["outcome"] == "fired"));
    let fires = admin.get(&format!("{place}/fires")).await.expect(200);
    assert_eq!(fires["fires"].as_array().unwrap().len(), 4);
    drop(server);
}

///
#[tokio::test]
async fn a_backfill_of_more_bytes_than_allowed_is_refused_with_its_place() {
    let (server, admin, _) = server().await;
    let mut trigger = schedule_trigger();
    trigger["cron_expr"] = json!("* * * * *");
    trigger["label"] = json!("x".repeat(200));
    trigger["payload_template"] = json!({"path_prefix": "{{trigger.label}}".repeat(3600)});
    let made = admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
    let place = format!("/api/v1/jobs/triggers/{}/backfill", made["id"].as_str().unwrap());
    let range = json!({"from": "2026-11-01T00:00:00Z", "until": "2026-11-01T16:00:00Z"});
    let problem = admin.post(&place, &range).await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/until");
    assert!(
        problem["errors"][0]["message"].as_str().unwrap().ends_with("choose a shorter range"),
        "{problem}"
    );
    let range = json!({"from": "2026-11-01T00:00:00Z", "until": "2026-11-01T00:04:00Z"});
    let filled = admin.post(&place, &range).await.expect(200);
    assert_eq!(filled["fires"].as_array().unwrap().len(), 5);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_over_http_starts_the_jobs_of_its_triggers() {
    let (server, admin, _) = server().await;
    let trigger = admin.post("/api/v1/jobs/triggers", &event_trigger()).await.expect(201);
    let body = json!({"name": "provider.folder.updated", "dedupe_id": "delivery 1",
        "payload": {"provider_id": "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09", "folder_path": "/photos"}});
    let dry = json!({"name": body["name"], "payload": body["payload"]});
    let would = admin.post("/api/v1/jobs/triggers/dry-run", &dry).await.expect(200);
    assert_eq!(would["triggers"][0]["payload"]["path_prefix"], "/photos");
    let emitted = admin.post("/api/v1/events", &body).await.expect(201);
    let again = admin.post("/api/v1/events", &body).await.expect(200);
    assert_eq!((&again["id"], &again["is_duplicate"]), (&emitted["id"], &json!(true)));
    let bad = admin.post("/api/v1/events", &json!({"name": "provider.folder.updated"})).await.expect(201);

    let keeper = Keeper::new(server.queue.queue().clone(), KeeperSettings::default());
    let place = |event: &Value| format!("/api/v1/events/{}", event["id"].as_str().unwrap());
    eventually("both are dispatched", async || {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        let events = admin.get("/api/v1/events").await.expect(200);
        events["events"].as_array().unwrap().iter().all(|event| event["is_pending"] == false)
    })
    .await;
    let seen = admin.get(&place(&emitted)).await.expect(200);
    assert_eq!(
        (&seen["triggers"][0]["outcome"], &seen["triggers"][0]["trigger_id"]),
        (&json!("fired"), &trigger["id"])
    );
    let job = admin
        .get(&format!("/api/v1/jobs/{}", seen["triggers"][0]["job_id"].as_str().unwrap()))
        .await
        .expect(200);
    assert_eq!((&job["source"], &job["source_ref"]), (&json!("event"), &emitted["id"]));

    let failed = admin.get("/api/v1/events?failed=true").await.expect(200);
    assert_eq!(failed["events"][0]["id"], bad["id"]);
    let retry = json!({"trigger_id": trigger["id"]});
    let tried = admin.post(&format!("{}/retry", place(&bad)), &retry).await.expect(200);
    assert_eq!(tried["outcome"], "failed");
    admin.post(&format!("{}/retry", place(&emitted)), &retry).await.problem(409, "conflict");
    admin.post("/api/v1/events", &json!({"name": "no spaces"})).await.problem(422, "invalid");
}

/// Document 004: tenant admins manage only their tenant's triggers.
#[tokio::test]
async fn triggers_and_events_are_visible_to_their_tenant_only() {
    let (server, admin, tenant) = server().await;
    let made = admin.post("/api/v1/jobs/triggers", &schedule_trigger()).await.expect(201);
    let event = admin.post("/api/v1/events", &json!({"name": "list.created"})).await.expect(201);
    let place = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    let other = server.queue.tenant("other").await;
    let stranger = server.client(other, Role::TenantAdmin).await;
    for path in [
        place.clone(),
        format!("{place}/preview"),
        format!("{place}/fires"),
        format!("/api/v1/events/{}", event["id"].as_str().unwrap()),
    ] {
        stranger.get(&path).await.problem(404, "not-found");
    }
    stranger.patch(&place, &json!({"label": "mine"})).await.problem(404, "not-found");
    stranger.post(&format!("{place}/run"), &json!({})).await.problem(404, "not-found");
    stranger.delete(&place).await.problem(404, "not-found");
    assert!(
        stranger.get("/api/v1/jobs/triggers").await.expect(200)["triggers"].as_array().unwrap().is_empty()
    );
    let operator = server.client(tenant, Role::Operator).await;
    operator.get(&place).await.expect(200);
    operator.post("/api/v1/jobs/triggers", &schedule_trigger()).await.problem(403, "forbidden");
    operator.post("/api/v1/events", &json!({"name": "a"})).await.expect(201);
    let viewer = server.client(tenant, Role::Viewer).await;
    viewer.post("/api/v1/events", &json!({"name": "a"})).await.problem(403, "forbidden");
    server.anonymous().get("/api/v1/jobs/triggers").await.problem(401, "unauthorized");
}
