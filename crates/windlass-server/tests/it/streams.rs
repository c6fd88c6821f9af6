//! The streams of counts and logs: how many a tenant can have, and what they send.

use reqwest::{Method, Response};
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_testing::eventually;

use crate::support::{Client, TestServer};

/// The streams of every kind are counted together, and each place is released when its reader leaves.
#[tokio::test]
async fn the_streams_of_each_tenant_are_limited_separately() {
    let server = TestServer::start_with(Options { streams_per_tenant: 4, ..Options::default() }).await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let (loud, quiet) = (server.queue.tenant("loud").await, server.queue.tenant("quiet").await);
    let job = server.queue.enqueue(&NewJob::new("a").tenant(loud)).await.unwrap().id;
    let logs = [format!("/api/v1/jobs/{job}/logs"), format!("/ui/jobs/{job}/log")];
    let kinds = ["/api/v1/jobs/stream", "/ui/live", logs[0].as_str(), logs[1].as_str()];
    let (one, other) = (server.client(loud, Role::Viewer).await, server.client(loud, Role::Viewer).await);
    let mut open = Vec::new();
    for path in kinds {
        open.push(stream(&one, path).await);
    }
    assert!(open.iter().all(|response| response.status() == 200), "{open:?}");
    for path in kinds {
        let refused = other.get(path).await;
        let problem = refused.problem(429, "too-many-requests");
        assert!(problem["detail"].as_str().unwrap().contains('4'), "{path} names the limit: {problem}");
        assert!(refused.header("retry-after").is_some());
    }
    let quiet = server.client(quiet, Role::Viewer).await;
    assert_eq!(stream(&quiet, kinds[0]).await.status(), 200);
    assert_eq!(stream(&server.admin, kinds[1]).await.status(), 200);
    open.pop();
    eventually("the place of a closed stream is free", async || {
        stream(&other, kinds[0]).await.status() == 200
    })
    .await;
}

async fn stream(client: &Client, path: &str) -> Response {
    client.request(Method::GET, path).send().await.unwrap()
}

/// Also if all counts are zero.
#[tokio::test]
async fn the_first_counts_are_sent_although_the_first_read_has_failed() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("t").await;
    let viewer = server.client(tenant, Role::Viewer).await;
    let database = server.queue.client().await;
    // Known before, so that only the read of the counts fails.
    viewer.get("/api/v1/me").await.expect(200);
    let failures = async || {
        let query = "select xact_rollback from pg_stat_database where datname = current_database()";
        database.query_one(query, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = failures().await;
    database.batch_execute("alter view windlass.job_counts rename to counts_of_another_time").await.unwrap();
    let mut response = stream(&viewer, "/api/v1/jobs/stream").await;
    assert_eq!(response.status(), 200);
    eventually("a read has failed", async || failures().await > before).await;
    database.batch_execute("alter view windlass.counts_of_another_time rename to job_counts").await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: counts"), "{first:?}");
}
