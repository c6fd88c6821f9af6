//! A request holds at most one connection to the database, and none while it waits for anything else. Every other test of this
//! suite helps to prove it: their servers have a pool of one connection.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass::{Queue, Settings};
use windlass_server::http::Options;
use windlass_testing::TestQueue;

use crate::support::TestServer;

/// A server with the default number of connections.
async fn usual() -> TestServer {
    let queue = TestQueue::create().await;
    let served = Queue::connect(Settings::new(queue.url()).unwrap()).await.unwrap();
    TestServer::start_on(queue, served, Options::default()).await
}

/// The definition has not been used before, so its route is cached by none of the sixteen.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_concurrent_enqueues_with_a_key_all_succeed() {
    let server = usual().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let mut calls = JoinSet::new();
    for call in 0..16 {
        let client = server.admin.with("idempotency-key", format!("call-{call}"));
        calls.spawn(async move { client.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.status });
    }
    assert_eq!(calls.join_all().await, [StatusCode::CREATED; 16]);
}

/// The requests that look up a route, each on a server that has not cached it yet.
#[tokio::test]
async fn no_request_needs_a_second_connection_for_a_route() {
    let server = TestServer::start().await;
    let admin = &server.admin;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    admin
        .post("/api/v1/admin/jobs/definitions", &json!({"key": "a", "arg_schema": schema}))
        .await
        .expect(201);
    let triggers = "/api/v1/jobs/triggers";
    let schedule = json!({"trigger_type": "schedule", "definition_key": "a", "cron_expr": "0 * * * *", "label": "hourly"});
    let schedule = admin.post(triggers, &schedule).await.expect(201);
    let event = json!({"trigger_type": "event", "definition_key": "a", "event_name": "x", "label": "x",
        "payload_template": {"n": "{{event.n}}"}});
    let event = admin.post(triggers, &event).await.expect(201);
    let (schedule, event) = (&schedule["id"], &event["id"]);
    let path = |id: &Value, verb: &str| format!("{triggers}/{}/{verb}", id.as_str().unwrap());

    let job = json!({"definition_key": "a"});
    let range = json!({"from": "2026-01-01T00:00:00Z", "until": "2026-01-01T03:00:00Z"});
    let calls = [
        ("/api/v1/jobs".to_owned(), job.clone(), 201),
        ("/api/v1/jobs/bulk".to_owned(), json!({"jobs": [job, {"definition_key": "missing"}]}), 200),
        (path(schedule, "run"), json!({}), 201),
        (path(schedule, "backfill"), range, 200),
        (path(event, "run"), json!({"event": {"n": 1}}), 201),
        (format!("{triggers}/dry-run"), json!({"name": "x", "payload": {"n": 1}}), 200),
    ];
    for (path, body, status) in calls {
        let (running, client) = server.beside().await;
        let response = client.with("idempotency-key", &path).post(&path, &body).await;
        assert_eq!(response.status.as_u16(), status, "{path}: {}", response.text);
        running.stop(Duration::from_secs(10)).await;
    }
}
