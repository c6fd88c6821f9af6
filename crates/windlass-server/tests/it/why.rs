//! Why a job is not running: every code, produced and queried.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::NewJob;
use windlass_server::auth::Role;

use crate::support::{Client, TestServer};

/// A tenant's admin, a worker of that tenant, and the codes that were seen.
struct Asked {
    server: TestServer,
    tenant: Uuid,
    admin: Client,
    worker: Client,
    seen: BTreeSet<String>,
}

impl Asked {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let tenant = server.queue.tenant("acme").await;
        let (admin, worker) =
            (server.client(tenant, Role::TenantAdmin).await, server.client(tenant, Role::Worker).await);
        Self { server, tenant, admin, worker, seen: BTreeSet::new() }
    }

    /// A separate definition for each case, so that no other job interferes.
    async fn define(&self, key: &str) {
        self.server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": key})).await.expect(201);
    }

    async fn enqueue(&self, job: Value) -> String {
        self.admin.post("/api/v1/jobs", &job).await.expect(201)["id"].as_str().unwrap().to_owned()
    }

    async fn claim(&self, key: &str) -> Value {
        let claim = json!({"definition_keys": [key], "wait_seconds": 20});
        self.worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200)["jobs"][0].clone()
    }

    /// A live worker with a handler for the key.
    async fn know(&self, key: &str, queues: &[&str]) {
        let me = json!({"worker_id": key, "definition_keys": [key], "queues": queues});
        self.worker.post("/api/v1/worker/register", &me).await.expect(200);
    }

    /// The codes of a job, the most important one first; every reason has a description and advice.
    async fn why(&mut self, job: &str) -> (Vec<String>, Value) {
        let why = self.admin.get(&format!("/api/v1/jobs/{job}/why")).await.expect(200);
        let reasons = why["reasons"].as_array().unwrap();
        assert_eq!(why["reason"], reasons[0]);
        for reason in reasons {
            assert!(!reason["message"].as_str().unwrap().is_empty(), "{reason}");
            assert!(!reason["remedy"].as_str().unwrap().is_empty(), "{reason}");
        }
        let codes: Vec<String> =
            reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect();
        self.seen.extend(codes.iter().cloned());
        (codes, why)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_can_occur_and_the_most_important_one_is_first() {
    let mut asked = Asked::start().await;
    for key in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        asked.define(key).await;
    }

    // No worker has a handler for the key; then one had, and stopped.
    let job = asked.enqueue(json!({"definition_key": "a"})).await;
    assert_eq!(asked.why(&job).await.0, ["no_worker_for_definition"]);
    asked.know("a", &[]).await;
    let (codes, why) = asked.why(&job).await;
    assert_eq!(codes, ["about_to_start"]);
    assert!(why["reason"]["remedy"].as_str().unwrap().contains("(weight 1)"), "{why}");
    let database = asked.server.queue.client().await;
    let silent = "update windlass.job_workers set lease_expires_at = now() - interval '1 minute'";
    database.batch_execute(silent).await.unwrap();
    let (codes, why) = asked.why(&job).await;
    assert_eq!(codes, ["no_worker_for_definition"]);
    let message = why["reason"]["message"].as_str().unwrap();
    assert!(message.contains("the last one was") && message.contains("\"a\""), "{message}");

    // It runs, is asked to stop, and ends.
    let job = asked.enqueue(json!({"definition_key": "b"})).await;
    let claimed = asked.claim("b").await;
    let (codes, why) = asked.why(&job).await;
    assert_eq!((codes.as_slice(), &why["status"]), (["running".to_owned()].as_slice(), &json!("running")));
    asked.admin.post(&format!("/api/v1/jobs/{job}/cancel"), &json!({})).await.expect(200);
    assert_eq!(asked.why(&job).await.0, ["cancel_pending", "running"]);
    let ended = format!("/api/v1/worker/jobs/{job}/complete");
    asked.worker.post(&ended, &json!({"fence": claimed["fence"]})).await.expect(200);
    let (codes, why) = asked.why(&job).await;
    assert_eq!(codes, ["finished"]);
    assert!(why["reason"]["message"].as_str().unwrap().contains("canceled"), "{why}");

    // It is not due: because of its own start time, or after a failure.
    let job = asked.enqueue(json!({"definition_key": "c", "delay_seconds": 3600})).await;
    assert_eq!(asked.why(&job).await.0, ["not_due", "no_worker_for_definition"]);
    let job = asked.enqueue(json!({"definition_key": "d"})).await;
    let claimed = asked.claim("d").await;
    let failed = json!({"fence": claimed["fence"], "error": "e", "retry_after_seconds": 600});
    asked.worker.post(&format!("/api/v1/worker/jobs/{job}/fail"), &failed).await.expect(200);
    assert_eq!(asked.why(&job).await.0[0], "backing_off");

    // It depends on another job.
    let first = asked.enqueue(json!({"definition_key": "e"})).await;
    let job = asked.enqueue(json!({"definition_key": "e", "depends_on": [first]})).await;
    let (codes, why) = asked.why(&job).await;
    assert_eq!(codes[0], "waits_for_job");
    assert!(why["reason"]["message"].as_str().unwrap().contains(&first), "it names the job: {why}");

    // Its position: behind jobs of its lane, and behind more urgent ones.
    asked.know("f", &[]).await;
    for _ in 0..2 {
        asked.enqueue(json!({"definition_key": "f"})).await;
    }
    let job = asked.enqueue(json!({"definition_key": "f"})).await;
    let (codes, why) = asked.why(&job).await;
    assert_eq!(codes, ["behind_earlier_jobs"]);
    let (message, remedy) = (&why["reason"]["message"], &why["reason"]["remedy"]);
    assert!(message.as_str().unwrap().starts_with("2 "), "it gives the number: {why}");
    assert!(remedy.as_str().unwrap().contains("weight (this tenant's is 1)"), "it gives the weight: {why}");
    asked.enqueue(json!({"definition_key": "f", "priority": 1})).await;
    assert_eq!(asked.why(&job).await.0, ["behind_higher_priority", "behind_earlier_jobs"]);

    // The workers with a handler do not serve its queue, or are drained.
    let job = asked.enqueue(json!({"definition_key": "g", "queue": "night"})).await;
    asked.know("g", &["day"]).await;
    assert_eq!(asked.why(&job).await.0, ["no_worker_serves_queue"]);
    let job = asked.enqueue(json!({"definition_key": "h"})).await;
    asked.know("h", &[]).await;
    let workers = asked.server.admin.get("/api/v1/admin/workers").await.expect(200);
    let knows = |worker: &&Value| worker["definition_keys"] == json!(["h"]);
    let worker = workers["workers"].as_array().unwrap().iter().find(knows).unwrap()["worker_id"].clone();
    let quiet = format!("/api/v1/admin/workers/{}/drain", worker.as_str().unwrap().replace('/', "%2F"));
    asked.server.admin.post(&quiet, &json!({})).await.expect(200);
    assert_eq!(asked.why(&job).await.0, ["workers_drained"]);

    // The definition has reached its limit of running jobs.
    let one_at_a_time = json!({"key": "j", "max_running": 1});
    asked.server.admin.post("/api/v1/admin/jobs/definitions", &one_at_a_time).await.expect(201);
    asked.know("j", &[]).await;
    asked.enqueue(json!({"definition_key": "j"})).await;
    asked.claim("j").await;
    let job = asked.enqueue(json!({"definition_key": "j"})).await;
    assert_eq!(asked.why(&job).await.0, ["limit_reached"]);

    // Everything that a super-admin disabled, at once, in order of importance.
    let job = asked.enqueue(json!({"definition_key": "i", "queue": "paused"})).await;
    let id = {
        let all = asked.server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
        let found = all["definitions"].as_array().unwrap().iter().find(|one| one["key"] == "i").cloned();
        found.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let definition = format!("/api/v1/admin/jobs/definitions/{id}");
    asked.server.admin.patch(&definition, &json!({"is_active": false})).await.expect(200);
    asked.server.admin.post("/api/v1/admin/queues/paused/pause", &json!({})).await.expect(200);
    let tenant = format!("/api/v1/admin/tenants/{}", asked.tenant);
    asked.server.admin.patch(&tenant, &json!({"status": "suspended"})).await.expect(200);
    assert_eq!(
        asked.why(&job).await.0,
        ["tenant_suspended", "definition_inactive", "queue_paused", "no_worker_for_definition"]
    );
    let every: BTreeSet<String> = windlass::job::Reason::CODES.iter().map(ToString::to_string).collect();
    assert_eq!(asked.seen, every, "a code that no test produces");
}

/// A suspended tenant's jobs stay in their state until it is active again.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_tenant_starts_nothing_until_it_is_active_again() {
    let asked = Asked::start().await;
    asked.define("a").await;
    let job = asked.server.queue.enqueue(&NewJob::new("a").tenant(asked.tenant)).await.unwrap().id;
    let tenant = format!("/api/v1/admin/tenants/{}", asked.tenant);
    asked.server.admin.patch(&tenant, &json!({"status": "suspended"})).await.expect(200);
    // A worker of the installation, which gets every tenant's jobs in turn.
    let worker = json!({"name": "w", "role": "worker"});
    let made = asked.server.admin.post("/api/v1/admin/tokens", &worker).await.expect(201);
    let everybodys = Client::new(&asked.server.base, Some(made["token"].as_str().unwrap().to_owned()));
    let claim = json!({"definition_keys": ["a"], "wait_seconds": 1});
    assert_eq!(everybodys.post("/api/v1/worker/jobs/claim", &claim).await.expect(200)["jobs"], json!([]));
    let shown = asked.admin.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!(shown["status"], "queued", "it can still be read");
    asked.server.admin.patch(&tenant, &json!({"status": "active"})).await.expect(200);
    let claim = json!({"definition_keys": ["a"], "wait_seconds": 30});
    let jobs = everybodys.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
    assert_eq!(jobs["jobs"][0]["id"], json!(job));
}

/// The quota of a tenant over HTTP: exact, with retry-after, and without effect on other tenants.
#[tokio::test]
async fn a_tenant_at_its_quota_gets_retry_after() {
    let asked = Asked::start().await;
    asked.define("a").await;
    let limits = format!("/api/v1/admin/limits/{}", asked.tenant);
    asked.server.admin.patch(&limits, &json!({"max_queued": 2})).await.expect(200);
    let job = json!({"definition_key": "a"});
    // The tenant's cached settings are used for a few seconds; a new definition is not cached.
    asked.define("b").await;
    let fresh = json!({"definition_key": "b"});
    for _ in 0..2 {
        asked.enqueue(fresh.clone()).await;
    }
    let refused = asked.admin.post("/api/v1/jobs", &fresh).await;
    refused.problem(429, "quota-reached");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    let bulk = asked.admin.post("/api/v1/jobs/bulk", &json!({"jobs": [fresh]})).await.expect(200);
    assert_eq!((&bulk["created"], &bulk["results"][0]["status"]), (&json!(0), &json!(429)), "{bulk}");
    let other = asked.server.client(asked.server.queue.tenant("other").await, Role::Operator).await;
    other.post("/api/v1/jobs", &job).await.expect(201);
    asked.server.admin.patch(&limits, &json!({"max_queued": null})).await.expect(200);
    asked.enqueue(fresh).await;
}

/// The names of workers reveal who runs what where.
#[tokio::test(flavor = "multi_thread")]
async fn no_worker_of_another_tenant_is_named_or_counted() {
    let mut asked = Asked::start().await;
    asked.define("a").await;
    let other = asked.server.queue.tenant("rival").await;
    let stranger = asked.server.client(other, Role::Worker).await;
    let me = json!({"worker_id": "rivals-gpu-box", "definition_keys": ["a"], "queues": []});
    stranger.post("/api/v1/worker/register", &me).await.expect(200);
    let job = asked.enqueue(json!({"definition_key": "a"})).await;
    let (codes, why) = asked.why(&job).await;
    assert_eq!(codes, ["no_worker_for_definition"], "one of another tenant does not run it: {why}");
    let database = asked.server.queue.client().await;
    for state in [
        "insert into windlass.drain_request select id, worker_id from windlass.job_workers",
        "delete from windlass.drain_request; update windlass.job_workers set queues = '{elsewhere}'",
        "update windlass.job_workers set lease_expires_at = now() - interval '1 minute'",
    ] {
        database.batch_execute(state).await.unwrap();
        let (codes, why) = asked.why(&job).await;
        assert_eq!(codes, ["no_worker_for_definition"], "{why}");
        assert!(!why.to_string().contains("rivals"), "{why}");
    }
    // A worker of the installation runs every tenant's jobs.
    let me = json!({"worker_id": "ours", "definition_keys": ["a"], "queues": []});
    asked.server.admin.post("/api/v1/worker/register", &me).await.expect(200);
    assert_eq!(asked.why(&job).await.0, ["about_to_start"]);
}

/// The registration of a worker is what a report about its definitions is made from.
#[tokio::test]
async fn a_pull_worker_is_known_for_what_it_claimed_last_and_keeps_its_host() {
    let mut asked = Asked::start().await;
    let me = json!({"worker_id": "mac", "hostname": "mac.local", "version": "7", "metadata": {"gpu": true}});
    asked.worker.post("/api/v1/worker/register", &me).await.expect(200);
    for key in ["first", "second"] {
        asked.define(key).await;
        let job = asked.enqueue(json!({"definition_key": key})).await;
        let claim = json!({"worker_id": "mac", "definition_keys": [key], "wait_seconds": 20});
        let claimed = asked.worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
        assert_eq!(claimed["jobs"][0]["id"], json!(job));
        let next = asked.enqueue(json!({"definition_key": key})).await;
        let (codes, why) = asked.why(&next).await;
        assert!(!codes.contains(&"no_worker_for_definition".to_owned()), "{key}: {why}");
        let took = asked.worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
        assert_eq!(took["jobs"][0]["id"], json!(next));
    }
    let row = "select hostname, version, metadata::text, definition_keys from windlass.job_workers where worker_id like 'mac@%'";
    let row = asked.server.queue.client().await.query_one(row, &[]).await.unwrap();
    let shown = (row.get::<_, &str>(0), row.get::<_, &str>(1), row.get::<_, &str>(2));
    assert_eq!(shown, ("mac.local", "7", r#"{"gpu": true}"#));
    assert_eq!(row.get::<_, Vec<String>>(3), ["second"]);
}
