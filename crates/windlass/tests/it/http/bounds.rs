//! The cost that an endpoint can cause is bounded: how much is read, how long the worker waits, where it is redirected.

use std::sync::Arc;

use serde_json::json;
use windlass::NewJob;
use windlass::worker::{HttpEndpoint, SecretText};
use windlass_testing::TestQueue;

use super::server::{Reply, Request, Server};
use super::{endpoint, start};
use crate::support::{attempts, until, worker};

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_response_is_not_read_fully() {
    let server = Server::start(|_| Reply::endless()).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "flood", &endpoint(&server, "/").max_response_bytes(100_000)).await;
    let id = queue.enqueue(&NewJob::new("flood")).await.unwrap().id;
    let row = until(&client, id, "failed").await;
    assert_eq!(row["last_error"], json!("the response is larger than 100000 bytes"));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_response_times_out() {
    let server = Server::start(|_| Reply::never()).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "mute", &endpoint(&server, "/").timeout(0.2)).await;
    let id = queue.enqueue(&NewJob::new("mute").max_attempts(2)).await.unwrap().id;
    let row = until(&client, id, "dead_letter").await;
    assert_eq!(row["last_error"], json!("no response within 0.2 s"));
    assert_eq!(attempts(&client, id).await, ["failed", "failed"]);
    worker.stop().await.unwrap();
}

/// Followed while request and origin stay the same: another host, port or scheme gets nothing at all.
#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_limited_and_never_lead_to_another_origin() {
    let other = Server::start(|_| Reply::json(200, &json!("there"))).await;
    let there = other.url("/there?token=hush-hush");
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        "/away" => Reply::redirect(307, &there),
        "/https" => Reply::redirect(308, &there.replacen("http:", "https:", 1)),
        "/near" => Reply::redirect(307, "/here"),
        "/here" => Reply::json(200, &json!("here")),
        "/see-other" => Reply::redirect(303, "/here"),
        _ => Reply::redirect(308, "/round"),
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let to = |path: &str| {
        endpoint(&server, path)
            .headers([("authorization".to_owned(), "Bearer sesame-open".into())].into())
            .allow(vec![server.place(), other.place()])
    };
    let mut building = worker(&queue);
    let keys = ["near", "round", "see-other", "away", "https"];
    for key in keys {
        building = building.http(key, &to(&format!("/{key}"))).unwrap();
    }
    let worker = building.start().await.unwrap();
    let ids = queue.enqueue_many(&keys.map(NewJob::new)).await.unwrap();
    let row = until(&client, ids[0].id, "succeeded").await;
    assert_eq!(row["result"], json!("here"));
    let seen = server.requests();
    let moved = seen.iter().find(|request| request.path == "/here").unwrap();
    assert_eq!((moved.header("authorization"), moved.method.as_str()), ("Bearer sesame-open", "POST"));
    assert_eq!(moved.json()["id"], json!(ids[0].id), "with the same body");
    for away in &ids[3..] {
        let row = until(&client, away.id, "failed").await;
        let error = row["last_error"].as_str().unwrap();
        assert!(error.contains("to another origin (http") && !error.contains("hush-hush"), "{error}");
    }
    assert_eq!(other.requests().len(), 0, "nothing is sent to another origin");
    let row = until(&client, ids[1].id, "failed").await;
    assert_eq!(row["last_error"], json!("the redirect was not followed: more than 3 redirects"));
    let row = until(&client, ids[2].id, "failed").await;
    assert!(row["last_error"].as_str().unwrap().contains("would drop the request body"), "{row}");
    worker.stop().await.unwrap();
}

/// F-29: many jobs whose endpoint is down do not all call it.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_endpoint_is_not_called_for_a_while() {
    let server = Server::start(|_| Reply::text(500, "down")).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "down", &endpoint(&server, "/")).await;
    let jobs: Vec<_> = (0..200).map(|_| NewJob::new("down").max_attempts(100)).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let snoozed = "select count(*) from windlass.job_attempts where status = 'snoozed'";
    windlass_testing::eventually("jobs are delayed without a counted failure", async || {
        crate::support::count(&client, snoozed).await > 0
    })
    .await;
    assert!(server.connections() < 40, "{} calls were made", server.connections());
    worker.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_rejected_by_name() {
    let queue = TestQueue::create().await;
    let good = || HttpEndpoint::new("https://example.org/jobs");
    let header = |name: &str, value: SecretText| [(name.to_owned(), value)].into();
    let missing = SecretText::Env { env: "WINDLASS_NO_SUCH_VARIABLE".to_owned() };
    let bad = [
        ("url", HttpEndpoint::new("not a url")),
        ("url", HttpEndpoint::new("ftp://example.org/")),
        ("url", HttpEndpoint::new("file:///etc/passwd")),
        ("url", HttpEndpoint::new("https://user:word@example.org/")),
        ("method", good().method("GET")),
        ("allow.0", good().allow(vec!["localhost".to_owned()])),
        ("allow.0", good().allow(vec!["localhost:0".to_owned()])),
        ("allow.1", good().allow(vec!["a:1".to_owned(), "b/c:2".to_owned()])),
        ("timeout", good().timeout(0.0)),
        ("timeout", good().timeout(f64::NAN)),
        ("lease", good().lease(1e9)),
        ("batch", good().batch(0)),
        ("redirects", good().redirects(99)),
        ("secret", good().secret("short".into())),
        ("secret", good().secret(missing.clone())),
        ("headers.x-a", good().headers(header("x-a", "a\nb".into()))),
        ("headers.x a", good().headers(header("x a", "b".into()))),
        ("headers.Webhook-Id", good().headers(header("Webhook-Id", "b".into()))),
        ("headers.x-a", good().headers(header("x-a", missing))),
    ];
    for (setting, endpoint) in bad {
        match worker(&queue).http("k", &endpoint) {
            Err(windlass::Error::Refused { field, .. }) => assert_eq!(field, format!("http.k.{setting}")),
            other => panic!("{setting}: {other:?}"),
        }
    }
    let shown = format!("{:?}", good().secret("a secret of some length".into()));
    assert!(!shown.contains("a secret"), "{shown}");
    let _ = Arc::new(worker(&queue).http("k", &good()).unwrap());
}
