//! An endpoint is shared by tenants: what the jobs of one do to a call has no effect on the jobs of another.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{TestQueue, eventually};

use super::server::{Reply, Request, Server};
use super::{endpoint, start};
use crate::support::{attempts, count, soon, until, worker};

/// An outcome for each job, or one refusal for all, which shows what was sent.
fn strict(request: &Request) -> Reply {
    let body = request.json();
    let jobs = body["jobs"].as_array().unwrap();
    if jobs.iter().any(|job| job["payload"] == json!("bad")) {
        return Reply::text(400, &format!("cannot process {body}"));
    }
    let outcome = |job: &Value| json!({"id": job["id"], "result": job["payload"]});
    Reply::json(200, &json!({"outcomes": jobs.iter().map(outcome).collect::<Vec<_>>()}))
}

/// a payload that makes the endpoint refuse the whole call, and an id that another tenant uses.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_has_jobs_of_one_tenant_only() {
    let server = Server::start(strict).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("tag")).await.unwrap();
    let (evil, good) = (queue.tenant("evil").await, queue.tenant("good").await);
    let ids: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    for (tenant, payload) in [(evil, "bad"), (good, "sesame")] {
        let new = |id: &Uuid| NewJob::new("tag").tenant(tenant).id(*id).payload(&payload);
        queue.enqueue_many(&ids.iter().map(new).collect::<Vec<_>>()).await.unwrap();
    }
    let endpoint = endpoint(&server, "/").batch(10);
    let worker = worker(&queue).concurrency(20).http("tag", &endpoint).unwrap().start().await.unwrap();
    for (tenant, status) in [(good, "succeeded"), (evil, "failed")] {
        let ended = format!(
            "select count(*) from windlass.jobs where tenant_id = '{tenant}' and status = '{status}'"
        );
        eventually("each tenant's jobs end by themselves", async || count(&client, &ended).await == 4).await;
    }
    let wrong = format!(
        "select count(*) from windlass.jobs where tenant_id = '{good}' and result <> '\"sesame\"'
            or tenant_id = '{evil}' and last_error like '%sesame%'"
    );
    assert_eq!(count(&client, &wrong).await, 0);
    for request in server.requests() {
        let body = request.json();
        let tenants: HashSet<&str> =
            body["jobs"].as_array().unwrap().iter().map(|job| job["tenant_id"].as_str().unwrap()).collect();
        assert_eq!(tenants.len(), 1, "{body}");
    }
    worker.stop().await.unwrap();
}

/// the deadline of one job would end the call of all.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_an_early_deadline_has_a_call_of_its_own() {
    let server = Server::start(strict).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("tag")).await.unwrap();
    let soon = Timestamp::now() + SignedDuration::from_secs(120);
    let jobs: Vec<NewJob> = (0..10)
        .map(|n| {
            let new = NewJob::new("tag").payload(&n);
            if n == 4 { new.deadline(soon) } else { new }
        })
        .collect();
    let ids: Vec<Uuid> = queue.enqueue_many(&jobs).await.unwrap().into_iter().map(|job| job.id).collect();
    let endpoint = endpoint(&server, "/").batch(10);
    let worker = worker(&queue).concurrency(20).http("tag", &endpoint).unwrap().start().await.unwrap();
    for id in &ids {
        until(&client, *id, "succeeded").await;
    }
    let calls: Vec<Vec<Value>> = server
        .requests()
        .iter()
        .map(|request| {
            request.json()["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect()
        })
        .collect();
    assert!(calls.contains(&vec![json!(ids[4])]), "{calls:?}");
    assert!(calls.len() < 10, "the others share calls: {calls:?}");
    worker.stop().await.unwrap();
}

/// the other tenant's job is neither delayed nor snoozed.
#[tokio::test(flavor = "multi_thread")]
async fn the_failures_of_one_tenant_do_not_pause_the_endpoint_for_another() {
    let server = Server::start(|request: &Request| match request.json()["payload"].as_str() {
        Some("bad") => Reply::text(500, "cannot process it"),
        _ => Reply::json(200, &json!("done")),
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "shared", &endpoint(&server, "/")).await;
    let (evil, good) = (queue.tenant("evil").await, queue.tenant("good").await);
    let bad = || NewJob::new("shared").tenant(evil).payload(&"bad").max_attempts(100);
    queue.enqueue_many(&(0..100).map(|_| bad()).collect::<Vec<_>>()).await.unwrap();
    let snoozed = "select count(*) from windlass.job_attempts where status = 'snoozed'";
    eventually("the endpoint is paused", async || count(&client, snoozed).await > 0).await;
    let id = queue.enqueue(&NewJob::new("shared").tenant(good)).await.unwrap().id;
    until(&client, id, "succeeded").await;
    assert_eq!(attempts(&client, id).await, ["succeeded"]);
    worker.abort();
}

/// jobs whose deadlines are so short that no endpoint can respond in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_of_a_job_is_no_failure_of_its_endpoint() {
    let server = Server::start(|request: &Request| match request.json()["payload"].as_str() {
        Some("slow") => Reply::never(),
        _ => Reply::json(200, &json!("done")),
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("slow").backoff(soon())).await.unwrap();
    let endpoint = endpoint(&server, "/");
    let worker = worker(&queue).concurrency(50).http("slow", &endpoint).unwrap().start().await.unwrap();
    let deadline = Timestamp::now() + SignedDuration::from_secs(3);
    let short = || NewJob::new("slow").payload(&"slow").deadline(deadline).max_attempts(1);
    queue.enqueue_many(&(0..24).map(|_| short()).collect::<Vec<_>>()).await.unwrap();
    eventually("all of them are called", async || server.requests().len() == 24).await;
    let ended = format!(
        "select count(*) from windlass.job_attempts where tenant_id = '{DEFAULT_TENANT}' and finished_at is not null"
    );
    eventually("all of them end", async || count(&client, &ended).await == 24).await;
    let id = queue.enqueue(&NewJob::new("slow")).await.unwrap().id;
    until(&client, id, "succeeded").await;
    assert_eq!(attempts(&client, id).await, ["succeeded"]);
    worker.stop().await.unwrap();
}
