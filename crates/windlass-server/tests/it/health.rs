//! The first things anybody asks: is it there, and does it know me.

use windlass_server::auth::Role;

use crate::support::TestServer;

#[tokio::test]
async fn it_is_alive_and_ready_for_anybody_and_lists_jobs_for_those_it_knows() {
    let mut server = TestServer::start().await;
    let anonymous = server.anonymous();
    assert_eq!(anonymous.get("/health/live").await.expect(200)["status"], "ok");
    assert_eq!(anonymous.get("/health/ready").await.expect(200)["status"], "ok");

    anonymous.get("/api/v1/jobs").await.problem(401, "unauthorized");
    anonymous.get("/nowhere").await.problem(404, "not-found");
    server.admin.delete("/health/live").await.problem(405, "method-not-allowed");
    let jobs = server.admin.get("/api/v1/jobs").await.expect(200);
    assert_eq!(jobs["jobs"], serde_json::json!([]));
    let problem = server.admin.get("/api/v1/jobs?limits=3").await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "?limits");

    let tenant = server.queue.tenant("a").await;
    server.client(tenant, Role::Viewer).await.get("/api/v1/jobs").await.expect(200);
    server.client(tenant, Role::Worker).await.get("/api/v1/jobs").await.problem(403, "forbidden");
    server.stop().await;
}
