//! A list without rows says why: there are none, or the filters in the address exclude them.

use serde_json::json;
use windlass::{DEFAULT_TENANT, Definition, NewJob};

use crate::support::TestServer;

#[tokio::test]
async fn a_list_whose_filters_exclude_every_row_says_so_and_links_to_all_of_them() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    server.queue.enqueue(&NewJob::new("a")).await.unwrap();
    server.member(DEFAULT_TENANT, "ada@example.com", "viewer").await;
    let trigger = json!({"label": "l", "trigger_type": "event", "event_name": "x.y", "definition_key": "a"});
    server.admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
    for (path, title, link) in [
        ("/ui/jobs?tag=nope", "No matching jobs", "/ui/jobs"),
        ("/ui/jobs?q=nope", "No matching jobs", "/ui/jobs"),
        ("/ui/jobs?status=failed", "No matching jobs", "/ui/jobs"),
        ("/ui/jobs?cursor=00000000-0000-7000-8000-000000000001", "No matching jobs", "/ui/jobs"),
        ("/ui/audit?actor=nope", "No matching entries", "/ui/audit"),
        ("/ui/audit?action=nope", "No matching entries", "/ui/audit"),
        ("/ui/audit?outcome=denied", "No matching entries", "/ui/audit"),
        ("/ui/audit?before=0", "No matching entries", "/ui/audit"),
        ("/ui/members?q=nope", "No matching members", "/ui/members"),
        ("/ui/tokens?q=nope", "No matching tokens", "/ui/tokens"),
        ("/ui/tenants?q=nope", "No matching tenants", "/ui/tenants"),
        ("/ui/triggers?from=500", "No more triggers", "/ui/triggers"),
        ("/ui/workers?from=500", "No more workers", "/ui/workers"),
        ("/ui/overview?from=500", "No more tenants", "/ui/overview#o-busy"),
    ] {
        let page = server.admin.get(path).await;
        let text = page.expect_text(200);
        assert!(text.contains(&format!("<h2>{title}</h2>")), "{path}: {text}");
        assert!(text.contains(&format!("<a class=\"button\" href=\"{link}\">")), "{path}: {text}");
        assert!(!text.contains("has no jobs") && !text.contains("No jobs yet"), "{path}: {text}");
    }
    let empty = server.queue.tenant("empty").await;
    let page = server.admin.with("x-tenant-id", empty).get("/ui/members").await;
    assert!(page.expect_text(200).contains("<h2>No members</h2>"), "{}", page.text);
}
