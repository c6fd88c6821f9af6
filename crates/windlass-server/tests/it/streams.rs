//! The maximum number of open streams of a tenant.

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
