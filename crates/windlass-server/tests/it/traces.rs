//! Spans, as a collector receives them.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass::{Context, Done, Failure, Handler, NewJob, Worker};
use windlass_server::traces;
use windlass_testing::{TestQueue, eventually};

struct FailsOnce;

windlass_testing::payload!(FailsOnceArgs(Value) = "fails-once");

impl Handler for FailsOnce {
    type Args = FailsOnceArgs;

    async fn run(&self, job: &Context, _: FailsOnceArgs) -> Result<Done, Failure> {
        if job.attempt() == 1 {
            return Err(Failure::retry_after(std::time::Duration::ZERO, "once, with hunter22"));
        }
        Ok(Done::new())
    }
}

#[tokio::test]
async fn one_trace_leads_from_the_enqueue_through_every_attempt_to_the_end() {
    let received: Arc<Mutex<Vec<Value>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = {
        let received = received.clone();
        axum::Router::new().route(
            "/v1/traces",
            post(async move |Json(body): Json<Value>| {
                let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
                received.lock().unwrap().extend(spans);
            }),
        )
    };
    tokio::spawn(async move { axum::serve(listener, collector).await });

    let queue = TestQueue::create().await;
    let worker = Worker::builder(&queue).handler(FailsOnce).start().await.unwrap();
    let stop = CancellationToken::new();
    let exporting = tokio::spawn(traces::export(endpoint, worker.subscribe(), stop.clone()));
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let new = NewJob::new("fails-once").trace(given).payload(&serde_json::json!({"password": "hunter22"}));
    let job = queue.enqueue(&new).await.unwrap();
    eventually("the job's span arrives", async || received.lock().unwrap().len() >= 3).await;
    worker.stop().await.unwrap();
    stop.cancel();
    exporting.await.unwrap();

    let spans = received.lock().unwrap().clone();
    assert_eq!(spans.len(), 3, "{spans:#?}");
    assert!(spans.iter().all(|span| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let whole = spans.iter().find(|span| span["name"] == "job fails-once").unwrap();
    assert_eq!(whole["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(whole["status"]["code"], 1);
    let attempts: Vec<&Value> = spans.iter().filter(|span| span["name"] == "run fails-once").collect();
    assert!(attempts.iter().all(|span| span["parentSpanId"] == whole["spanId"]));
    assert_eq!(attempts[0]["status"]["code"], 2);
    assert_ne!(attempts[0]["spanId"], attempts[1]["spanId"]);
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos(whole, "startTimeUnixNano") <= nanos(attempts[0], "startTimeUnixNano"));
    assert!(whole.to_string().contains(&job.id.to_string()));
    // Ids, keys and codes only: a span contains no text of a job, so it contains no secret.
    let known =
        ["job_id", "tenant_id", "definition_key", "attempt_no", "worker_id", "outcome", "queue_ms", "status"];
    for attribute in spans.iter().flat_map(|span| span["attributes"].as_array().unwrap()) {
        let name = attribute["key"].as_str().unwrap().strip_prefix("windlass.").unwrap();
        assert!(known.contains(&name), "{attribute}");
    }
    assert!(!serde_json::to_string(&spans).unwrap().contains("hunter22"));
}
