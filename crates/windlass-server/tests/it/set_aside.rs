//! What the keeper passes over is shown to people, with the reason.

use reqwest::Method;
use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn the_overview_shows_what_is_set_aside_with_its_reason() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "odd"})).await.expect(201);
    let client = server.queue.client().await;
    let page = async || {
        let answer = server.admin.request(Method::GET, "/ui/overview").send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        answer.text().await.unwrap()
    };
    assert!(!page().await.contains("Skipped: "));
    // Stored before it was checked, or by hand.
    client.batch_execute(r#"update windlass.job_definitions set backoff = '{"base": 5}'"#).await.unwrap();
    let shown = page().await;
    assert!(shown.contains("Skipped: definition odd: backoff has no field"), "{shown}");
    // Mended, it is gone.
    client.batch_execute("update windlass.job_definitions set backoff = '{}'").await.unwrap();
    assert!(!page().await.contains("Skipped: "));
}
