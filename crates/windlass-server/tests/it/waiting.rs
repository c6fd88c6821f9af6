//! Claims that wait for jobs: what they hold meanwhile, and whether their caller still has access when jobs come.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::{Definition, NewJob};
use windlass_server::auth::{Role, TokenKind, TokenSecret};
use windlass_server::http::Options;
use windlass_testing::eventually;

use crate::support::{Client, TestServer};

const CLAIM: &str = "/api/v1/worker/jobs/claim";

fn claim(worker: &str, definition_keys: &[String]) -> Value {
    json!({"worker_id": worker, "definition_keys": definition_keys, "wait_seconds": 60})
}

/// A claim registers its worker before it waits.
async fn registered(server: &TestServer, workers: &str, count: i64) {
    let database = server.queue.client().await;
    let query = "select count(*) from windlass.job_workers where worker_id ~ $1";
    eventually("the claims wait", async || {
        database.query_one(query, &[&workers]).await.unwrap().get::<_, i64>(0) == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_wait_hold_no_permit_however_their_body_is_sent() {
    // One permit of each tenant, and eight of all.
    let mut server = TestServer::start_with(Options { heavy_per_tenant: 1, ..Options::default() }).await;
    let names: Vec<String> = (0..300).map(|n| format!("{n}-{}", "x".repeat(150))).collect();
    let large = claim("large", &names);
    assert!(large.to_string().len() > 32 * 1024);
    let mut claims = tokio::task::JoinSet::new();
    let mut readers = vec![server.client(server.queue.tenant("reader").await, Role::Viewer).await];
    for number in 0..8 {
        let tenant = server.queue.tenant(&format!("t{number}")).await;
        let worker = server.client(tenant, Role::Worker).await;
        readers.push(server.client(tenant, Role::Viewer).await);
        // Without a length: it could be a large one.
        let small = futures_util::stream::iter([Ok::<_, std::io::Error>(
            claim("small", &["a".to_owned()]).to_string(),
        )]);
        let small = worker.request(Method::POST, CLAIM).body(reqwest::Body::wrap_stream(small));
        claims.spawn(small.header("content-type", "application/json").send());
        claims.spawn(worker.request(Method::POST, CLAIM).json(&large).send());
    }
    registered(&server, "^(small|large)@", 16).await;
    for reader in readers {
        reader.get("/api/v1/jobs").await.expect(200);
    }
    server.stop().await;
    for answer in claims.join_all().await {
        assert_eq!(answer.unwrap().status(), 200);
    }
}

/// A worker's client, and the id of its token.
async fn worker(server: &TestServer, tenant: Uuid) -> (Client, String) {
    let client = server.client(tenant, Role::Worker).await;
    let id = client.token.as_deref().unwrap().split('_').nth(2).unwrap().to_owned();
    (client, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_gets_no_job_after_its_token_was_revoked() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let (revoked, id) = worker(&server, tenant).await;
    let keys = ["a".to_owned()];
    let waiting =
        tokio::spawn(async move { revoked.post(CLAIM, &claim("revoked", &["a".to_owned()])).await });
    registered(&server, "^revoked@", 1).await;
    server.admin.delete(&format!("/api/v1/admin/tokens/{id}")).await.expect(200);
    let payload = json!({"card": "for nobody but a worker"});
    let job = server.queue.enqueue(&NewJob::new("a").tenant(tenant).payload(&payload)).await.unwrap().id;
    let refused = waiting.await.unwrap();
    refused.problem(401, "unauthorized");
    assert!(!refused.text.contains("card"), "{}", refused.text);
    // The job does not wait for the end of a lease: it was released before the response.
    let (other, _) = worker(&server, tenant).await;
    let claimed = other.post(CLAIM, &claim("other", &keys)).await.expect(200);
    assert_eq!(claimed["jobs"][0]["id"], json!(job));
    let held = "select count(*) from windlass.pull_lease";
    let database = server.queue.client().await;
    assert_eq!(database.query_one(held, &[]).await.unwrap().get::<_, i64>(0), 1, "one lease, of the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_ends_when_its_token_is_revoked() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let (revoked, id) = worker(&server, tenant).await;
    let waiting =
        tokio::spawn(async move { revoked.post(CLAIM, &claim("revoked", &["a".to_owned()])).await });
    registered(&server, "^revoked@", 1).await;
    server.admin.delete(&format!("/api/v1/admin/tokens/{id}")).await.expect(200);
    waiting.await.unwrap().problem(401, "unauthorized");
    let denied = "select count(*) from windlass.audit where actor = $1 and outcome = 'denied'";
    let database = server.queue.client().await;
    let actor = format!("token:{id}");
    eventually("it is in the audit trail", async || {
        database.query_one(denied, &[&actor]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
}

/// Uses up the lookups of unknown tokens of the network of all clients here.
async fn flood(server: &TestServer) {
    for _ in 0..1000 {
        let token = TokenSecret::generate(TokenKind::Worker).expose();
        let response = Client::new(&server.base, Some(token)).get("/api/v1/me").await;
        if response.status == 429 {
            return;
        }
        response.problem(401, "unauthorized");
    }
    panic!("lookups are not limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_with_a_revoked_token_gets_no_job_while_its_network_has_no_lookups_left() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let (revoked, id) = worker(&server, tenant).await;
    let again = Client::new(&server.base, revoked.token.clone());
    let waiting =
        tokio::spawn(async move { revoked.post(CLAIM, &claim("revoked", &["a".to_owned()])).await });
    registered(&server, "^revoked@", 1).await;
    // A token that was valid recently is not limited.
    server.admin.get("/api/v1/me").await.expect(200);
    flood(&server).await;
    server.admin.delete(&format!("/api/v1/admin/tokens/{id}")).await.expect(200);
    server.queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap();
    waiting.await.unwrap().problem(401, "unauthorized");
    again.get("/api/v1/me").await.problem(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_released_if_the_client_disconnects_while_its_access_is_checked() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let (client, _) = worker(&server, tenant).await;
    let waiting = tokio::spawn(async move { client.post(CLAIM, &claim("gone", &["a".to_owned()])).await });
    registered(&server, "^gone@", 1).await;
    let (holder, database) = (server.queue.client().await, server.queue.client().await);
    holder.batch_execute("begin; lock table windlass.api_tokens").await.unwrap();
    let count = async |query: &str| database.query_one(query, &[]).await.unwrap().get::<_, i64>(0);
    let checks = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    eventually("a check waits for the lock", async || count(checks).await > 0).await;
    // The claim continues meanwhile, and its jobs wait for another check.
    server.queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap();
    let leases = "select count(*) from windlass.pull_lease";
    eventually("the job is claimed", async || count(leases).await == 1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled(), "it has no response");
    eventually("the job is released", async || count(leases).await == 0).await;
    holder.batch_execute("rollback").await.unwrap();
}

/// Otherwise a job that was claimed in this moment waits for its whole lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_also_stops_its_service_of_pull_workers() {
    let mut server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let worker = server.client(server.queue.tenant("t").await, Role::Worker).await;
    let claim = json!({"worker_id": "w", "definition_keys": ["a"]});
    worker.post(CLAIM, &claim).await.expect(200);
    let database = server.queue.client().await;
    let ended = async || {
        let query = "select ended from windlass.job_workers where metadata ->> 'kind' = 'pull dispatcher'";
        database.query_one(query, &[]).await.unwrap().get::<_, Option<String>>(0)
    };
    assert_eq!(ended().await, None);
    server.stop().await;
    assert_eq!(ended().await.as_deref(), Some("stopped"));
}
