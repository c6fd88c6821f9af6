//! The worker protocol over a socket.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::{DEFAULT_TENANT, Definition, NewJob, Queue, Settings};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_testing::TestQueue;

use crate::support::{Client, TestServer};

async fn start() -> (TestServer, Client) {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("pulled")).await.unwrap();
    let worker = server.client(DEFAULT_TENANT, Role::Worker).await;
    (server, worker)
}

fn claim() -> Value {
    json!({"definition_keys": ["pulled"], "limit": 5, "wait_seconds": 20, "lease_seconds": 60})
}

fn at(job: &Value, verb: &str) -> String {
    format!("/api/v1/worker/jobs/{}/{verb}", job["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_signs_off_is_listed_as_stopped_at_once() {
    let (server, worker) = start().await;
    worker.post("/api/v1/worker/register", &json!({"worker_id": "mac"})).await.expect(200);
    let stop = json!({"worker_id": "mac"});
    let status = async || {
        let listed = server.admin.get("/api/v1/admin/workers").await.expect(200);
        let all = listed["workers"].as_array().unwrap().clone();
        let own = all.iter().find(|each| each["worker_id"].as_str().unwrap().starts_with("mac@")).unwrap();
        own["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status().await, "active");
    assert_eq!(worker.post("/api/v1/worker/stop", &stop).await.expect(200), json!({"is_stopped": true}));
    assert_eq!(status().await, "stopped");

    server.queue.enqueue(&NewJob::new("pulled")).await.unwrap();
    let mut claim = claim();
    claim["worker_id"] = json!("mac");
    let job = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200)["jobs"][0].clone();
    assert_eq!(status().await, "active", "a claim returns it to service");
    assert_eq!(worker.post("/api/v1/worker/stop", &stop).await.expect(200), json!({"is_stopped": false}));
    worker.post(&at(&job, "complete"), &json!({"fence": job["fence"]})).await.expect(200);
    assert_eq!(worker.post("/api/v1/worker/stop", &stop).await.expect(200), json!({"is_stopped": true}));
    let of_another = server.queue.tenant("another").await;
    let stranger = server.client(of_another, Role::Worker).await;
    worker.post("/api/v1/worker/register", &json!({"worker_id": "mac"})).await.expect(200);
    stranger.post("/api/v1/worker/stop", &stop).await.expect(200);
    assert_eq!(status().await, "active", "the same name in another tenant is another worker");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_renews_and_completes_a_job_over_http() {
    let (mut server, worker) = start().await;
    let me = json!({"worker_id": "mac", "hostname": "mac.local", "version": "1", "metadata": {"gpu": true}});
    assert_eq!(
        worker.post("/api/v1/worker/register", &me).await.expect(200),
        json!({"worker_id": "mac", "is_draining": false})
    );
    let payload = json!({"n": 12345678901234567890u64});
    let id = server.queue.enqueue(&NewJob::new("pulled").payload(&payload).max_attempts(4)).await.unwrap().id;
    let jobs = worker.post("/api/v1/worker/jobs/claim", &claim()).await.expect(200);
    let job = &jobs["jobs"][0];
    assert_eq!(
        (
            &job["id"],
            &job["tenant_id"],
            &job["definition_key"],
            &job["attempt"],
            &job["max_attempts"],
            &job["payload"]
        ),
        (&json!(id), &json!(DEFAULT_TENANT), &json!("pulled"), &json!(1), &json!(4), &payload)
    );
    for field in ["fence", "lease_expires_at", "deadline"] {
        assert!(job[field].is_string(), "{field}: {job}");
    }
    let fence = &job["fence"];
    let beat = json!({"fence": fence, "progress": {"percent": 50, "message": "half"}, "log": ["one", "two"]});
    let response = worker.post(&at(job, "heartbeat"), &beat).await.expect(200);
    assert_eq!(response["cancel_requested"], json!(false));
    assert!(response["lease_expires_at"].as_str() >= job["lease_expires_at"].as_str(), "{response}");
    let done = json!({"fence": fence, "result": {"big": 12345678901234567890u64}, "artifact": "s3://a",
                      "next": [{"definition_key": "pulled", "payload": {"n": 2}}]});
    assert_eq!(worker.post(&at(job, "complete"), &done).await.expect(200), json!({"status": "succeeded"}));
    let row = server.queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap();
    assert_eq!(
        (row.result, row.artifact),
        (Some(json!({"big": 12345678901234567890u64})), Some(json!("s3://a")))
    );
    let next = worker.post("/api/v1/worker/jobs/claim", &claim()).await.expect(200);
    assert_eq!((&next["jobs"][0]["parent_id"], &next["jobs"][0]["payload"]), (&json!(id), &json!({"n": 2})));

    // Repeated, it is too late.
    worker.post(&at(job, "complete"), &done).await.problem(409, "lease-lost");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_fails_snoozes_and_is_released_over_http() {
    let (mut server, worker) = start().await;
    let enqueue = async || server.queue.enqueue(&NewJob::new("pulled").max_attempts(2)).await.unwrap().id;
    let take =
        async || worker.post("/api/v1/worker/jobs/claim", &claim()).await.expect(200)["jobs"][0].clone();
    let end = async |job: &Value, verb: &str, mut body: Value| {
        body["fence"] = job["fence"].clone();
        worker.post(&at(job, verb), &body).await.expect(200)["status"].clone()
    };
    enqueue().await;
    assert_eq!(end(&take().await, "release", json!({})).await, json!("queued"));
    assert_eq!(end(&take().await, "snooze", json!({"delay_seconds": 3600})).await, json!("scheduled"));
    enqueue().await;
    assert_eq!(
        end(&take().await, "fail", json!({"error": "no", "retry_after_seconds": 60})).await,
        json!("scheduled")
    );
    enqueue().await;
    let lasting = enqueue().await;
    let job = take().await;
    assert_eq!(end(&job, "fail", json!({"error": "never", "retryable": false})).await, json!("failed"));
    assert_ne!(job["id"], json!(lasting));
    server.stop().await;
}

///
#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_fence_is_accepted() {
    let (mut server, worker) = start().await;
    let other_tenant = server.queue.tenant("other").await;
    let other = server.client(other_tenant, Role::Worker).await;
    let id = server.queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    assert_eq!(
        other.post("/api/v1/worker/jobs/claim", &json!({"definition_keys": ["pulled"]})).await.expect(200),
        json!({"jobs": []})
    );
    let job = worker.post("/api/v1/worker/jobs/claim", &claim()).await.expect(200)["jobs"][0].clone();
    let body = json!({"fence": job["fence"]});
    other.post(&at(&job, "complete"), &body).await.problem(409, "lease-lost");
    let elsewhere = format!("/api/v1/worker/jobs/{}/complete", Uuid::new_v4());
    worker.post(&elsewhere, &body).await.problem(409, "lease-lost");
    worker.post(&at(&job, "complete"), &json!({"fence": "made up"})).await.problem(409, "lease-lost");
    let row = server.queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap();
    assert_eq!(row.status, windlass::job::State::Running);
    // A caller without the worker permission may not claim; a worker may do nothing else.
    for role in [Role::Viewer, Role::Operator, Role::TenantAdmin] {
        let client = server.client(DEFAULT_TENANT, role).await;
        client.post("/api/v1/worker/jobs/claim", &claim()).await.problem(403, "forbidden");
        client.post(&at(&job, "complete"), &body).await.problem(403, "forbidden");
    }
    server.anonymous().post("/api/v1/worker/jobs/claim", &claim()).await.problem(401, "unauthorized");
    worker.get("/api/v1/jobs").await.problem(403, "forbidden");
    worker.post(&at(&job, "complete"), &body).await.expect(200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fields_of_a_worker_are_named() {
    let (mut server, worker) = start().await;
    server.queue.enqueue(&NewJob::new("pulled")).await.unwrap();
    let job = worker.post("/api/v1/worker/jobs/claim", &claim()).await.expect(200)["jobs"][0].clone();
    let fence = &job["fence"];
    let bad = [
        ("/api/v1/worker/jobs/claim".to_owned(), json!({}), "/definition_keys"),
        ("/api/v1/worker/jobs/claim".to_owned(), json!({"definition_keys": ["a"], "limit": 0}), "/limit"),
        (
            "/api/v1/worker/jobs/claim".to_owned(),
            json!({"definition_keys": ["a"], "wait_seconds": -1}),
            "/wait_seconds",
        ),
        (
            "/api/v1/worker/jobs/claim".to_owned(),
            json!({"definition_keys": ["a"], "lease_seconds": 0}),
            "/lease_seconds",
        ),
        ("/api/v1/worker/jobs/claim".to_owned(), json!({"definition_keys": ["a"], "colour": 1}), "/colour"),
        ("/api/v1/worker/register".to_owned(), json!({"worker_id": "a b"}), "/worker_id"),
        (at(&job, "complete"), json!({"fence": fence, "next": [{"definition_key": "nowhere"}]}), "/next"),
        (at(&job, "complete"), json!({"fence": fence, "next": [{"colour": 1}]}), "/next/0/colour"),
        (
            at(&job, "complete"),
            json!({"fence": fence, "next": vec![json!({"definition_key": "pulled"}); 1001]}),
            "/next",
        ),
        (at(&job, "fail"), json!({"fence": fence}), "/error"),
        (at(&job, "snooze"), json!({"fence": fence, "delay_seconds": -1}), "/delay_seconds"),
        (at(&job, "heartbeat"), json!({"fence": fence, "lease_seconds": 1e9}), "/lease_seconds"),
    ];
    for (path, body, pointer) in bad {
        let problem = worker.post(&path, &body).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], json!(pointer), "{path} {body}: {problem}");
    }
    worker.post(&at(&job, "complete"), &json!({"fence": fence})).await.expect(200);
    server.stop().await;
}

/// A server that stops responds to waiting claims.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_responds_to_waiting_claims() {
    let (mut server, worker) = start().await;
    let waiting = tokio::spawn({
        let worker = worker.clone();
        async move { worker.post("/api/v1/worker/jobs/claim", &claim()).await }
    });
    let client = server.queue.client().await;
    windlass_testing::eventually("it waits", async || {
        let text = "select count(*) from windlass.job_workers where worker_id like '%@%'";
        client.query_one(text, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    server.stop().await;
    assert_eq!(waiting.await.unwrap().expect(200), json!({"jobs": []}));
}

///
#[tokio::test(flavor = "multi_thread")]
async fn completions_behind_an_open_cancel_keep_no_heartbeat_of_the_tenant_waiting() {
    let queue = TestQueue::create().await;
    let served = Queue::connect(Settings::new(queue.url()).unwrap()).await.unwrap();
    let mut server = TestServer::start_on(queue, served, Options::default()).await;
    server.queue.define(&Definition::new("pulled")).await.unwrap();
    let worker = server.client(DEFAULT_TENANT, Role::Worker).await;
    let new = vec![NewJob::new("pulled"); 9];
    server.queue.enqueue_many(&new).await.unwrap();
    let all = json!({"definition_keys": ["pulled"], "limit": 9, "wait_seconds": 20, "lease_seconds": 60});
    let claimed = worker.post("/api/v1/worker/jobs/claim", &all).await.expect(200);
    let (held, free) = claimed["jobs"].as_array().unwrap().split_at(8);
    assert_eq!(free.len(), 1);

    let application = server.queue.client().await;
    let ids: Vec<Uuid> = held.iter().map(|job| job["id"].as_str().unwrap().parse().unwrap()).collect();
    application.batch_execute("begin").await.unwrap();
    let cancel = "select windlass.cancel_many($1, $2, '{}')";
    application.execute(cancel, &[&DEFAULT_TENANT, &ids]).await.unwrap();
    let mut completions = JoinSet::new();
    for job in held {
        let (worker, path, body) = (worker.clone(), at(job, "complete"), json!({"fence": job["fence"]}));
        completions.spawn(async move { worker.post(&path, &body).await });
    }
    let beat = json!({"fence": free[0]["fence"], "progress": {"percent": 1}});
    worker.post(&at(&free[0], "heartbeat"), &beat).await.expect(200);
    while let Some(response) = completions.join_next().await {
        let response = response.unwrap();
        response.problem(503, "unavailable");
        assert_eq!(response.header("retry-after"), Some("2"));
        worker.post(&at(&free[0], "heartbeat"), &beat).await.expect(200);
    }
    application.batch_execute("commit").await.unwrap();
    for job in held {
        let done = worker.post(&at(job, "complete"), &json!({"fence": job["fence"]})).await.expect(200);
        assert_eq!(done, json!({"status": "canceled"}));
    }
    server.stop().await;
}
