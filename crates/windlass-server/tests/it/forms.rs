//! The forms of the web UI: an error is shown at its field, and what a role may not do is not offered.

use serde_json::json;
use windlass::Definition;
use windlass_server::auth::Role;

use crate::support::TestServer;

#[tokio::test]
async fn a_viewer_reads_a_trigger_and_is_offered_no_change() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    let tenant = server.queue.tenant("acme").await;
    let new = json!({"label": "nightly", "trigger_type": "schedule", "cron_expr": "0 2 * * *", "definition_key": "work"});
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let trigger = admin.post("/api/v1/jobs/triggers", &new).await.expect(201);
    let path = format!("/ui/triggers/{}", trigger["id"].as_str().unwrap());
    for (email, role, may_write) in
        [("viewer@example.com", "viewer", false), ("admin@example.com", "tenant_admin", true)]
    {
        server.member(tenant, email, role).await;
        let page = server.browser(email).await.get(&path).await;
        let page = page.expect_text(200);
        assert!(page.contains("0 2 * * *"), "{role} sees the schedule");
        for change in ["Save trigger", "Show next runs", "Run now", "Delete trigger"] {
            assert_eq!(page.contains(change), may_write, "{change} for the role {role}");
        }
        assert_eq!(page.contains("<fieldset class=\"plain\" disabled>"), !may_write);
    }
}

#[tokio::test]
async fn an_error_is_shown_once_at_its_field_with_the_label() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    let tenant = server.queue.tenant("acme").await;
    let root = server.member(tenant, "root@example.com", "tenant_admin").await;
    let raise = "update windlass.users set is_super_admin = true where id = $1";
    server.queue.client().await.execute(raise, &[&root]).await.unwrap();
    let browser = server.browser("root@example.com").await;
    assert_eq!(browser.form("/ui/tenant", &[("tenant", &tenant.to_string())]).await.status, 303);
    let acting = tenant.to_string();
    let schedule = [
        ("acting_for", acting.as_str()),
        ("trigger_type", "schedule"),
        ("label", "nightly"),
        ("definition_key", "work"),
        ("cron_expr", "61 * * * *"),
        ("timezone", "UTC"),
    ];
    for verb in ["save", "preview"] {
        let fields: Vec<_> = schedule.into_iter().chain([("do", verb)]).collect();
        let page = browser.form("/ui/triggers/new", &fields).await;
        let page = page.expect_text(200);
        assert!(page.contains("id=\"f-cron_expr-wrong\">Schedule: "), "{page}");
        assert!(page.contains("aria-invalid=\"true\" aria-describedby=\"f-cron_expr-wrong\""), "{page}");
        assert_eq!(page.matches("is not a minute").count(), 1, "{page}");
        assert!(!page.contains("Cron_expr") && !page.contains(", UTC</p>"), "{page}");
    }
    let definition = [
        ("acting_for", acting.as_str()),
        ("key", "k"),
        ("queue", "default"),
        ("arg_schema", "{"),
        ("do", "save"),
    ];
    let page = browser.form("/ui/definitions/new", &definition).await;
    assert!(
        page.expect_text(200).contains("JSON Schema of the payload: must be valid JSON"),
        "{}",
        page.text
    );
    let token = [
        ("acting_for", acting.as_str()),
        ("name", "t"),
        ("role", "viewer"),
        ("expires", "2026-01-01T00:00"),
        ("do", "save"),
    ];
    let page = browser.form("/ui/tokens/new", &token).await;
    assert!(page.expect_text(200).contains("Expires (UTC): must be in the future"), "{}", page.text);
}

#[tokio::test]
async fn the_audit_trail_names_its_actors_and_shows_changes_below_their_row() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("acme").await;
    server.member(tenant, "ada@example.com", "tenant_admin").await;
    let browser = server.browser("ada@example.com").await;
    let token = [("acting_for", tenant.to_string()), ("name", "sync".into()), ("role", "viewer".into())];
    let token: Vec<(&str, &str)> = token.iter().map(|(name, value)| (*name, value.as_str())).collect();
    browser.form("/ui/tokens/new", &token).await.expect_text(200);
    let page = browser.get("/ui/audit").await;
    let page = page.expect_text(200);
    let row = page.split("<tr").find(|row| row.contains("token.create")).unwrap();
    assert!(
        row.contains("<bdi>ada@example.com</bdi>") && row.contains("href=\"/ui/audit?actor=user"),
        "{row}"
    );
    assert!(page.contains("class=\"beneath\"") && page.contains("&#34;name&#34;: &#34;sync&#34;"), "{page}");
    let unknown = browser.get("/ui/nothing-here").await;
    let unknown = unknown.expect_text(404);
    assert!(
        unknown.contains("There is no page at this address.") && !unknown.contains("deleted"),
        "{unknown}"
    );
    let denied = browser.get("/ui/workers").await;
    assert!(denied.expect_text(403).contains("Only super-admins can open this page."), "{}", denied.text);
}

/// also at the routes that need no credential, and for a person without a membership.
#[tokio::test]
async fn a_refused_form_is_recorded_with_its_person() {
    let server = TestServer::start().await;
    let (tenant, foreign) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let person = server.member(tenant, "ada@example.com", "viewer").await;
    let browser = server.browser("ada@example.com").await;
    let foreign_id = foreign.to_string();
    assert_eq!(browser.form("/ui/tenant", &[("tenant", foreign_id.as_str())]).await.status, 403);
    browser.with("x-tenant-id", foreign).get("/api/v1/jobs").await.problem(403, "forbidden");
    let stranger = server.anonymous().with("origin", "http://evil.test");
    let link = format!("/ui/invitations/{}", "a".repeat(43));
    for path in ["/ui/sign-in", "/ui/sign-out", "/ui/theme", link.as_str()] {
        assert_eq!(stranger.form(path, &[]).await.status, 403, "{path}");
    }
    let query = "select actor || ' ' || target from windlass.audit where outcome = 'denied' order by id";
    let rows = server.queue.client().await.query(query, &[]).await.unwrap();
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut expected =
        vec![format!("user:{person} POST /ui/tenant"), format!("user:{person} GET /api/v1/jobs")];
    for path in ["/ui/sign-in", "/ui/sign-out", "/ui/theme", "/ui/invitations/"] {
        expected.push(format!("anonymous POST {path}"));
    }
    assert_eq!(rows.len(), expected.len(), "{rows:?}");
    for (row, expected) in rows.iter().zip(&expected) {
        assert!(row.starts_with(expected.as_str()), "{row}, and not {expected}");
        assert!(!row.contains(&"a".repeat(43)), "the secret of the link is not recorded");
    }
}

/// the page leads to the choice of a tenant, and the form is denied.
#[tokio::test]
async fn a_form_of_a_removed_member_is_denied_and_recorded() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("left").await;
    let person = server.member(tenant, "dave@example.com", "operator").await;
    let browser = server.browser("dave@example.com").await;
    server
        .admin
        .with("x-tenant-id", tenant)
        .delete(&format!("/api/v1/admin/members/{person}"))
        .await
        .expect(200);
    let fields = [("act", "delete"), ("acting_for", &tenant.to_string())];
    assert_eq!(browser.form("/ui/jobs/act", &fields).await.status, 403);
    let denied = "select count(*) from windlass.audit where outcome = 'denied' and target = 'POST /ui/jobs/act' and actor = $1";
    let client = server.queue.client().await;
    let denied: i64 = client.query_one(denied, &[&format!("user:{person}")]).await.unwrap().get(0);
    assert_eq!(denied, 1);
    assert_eq!(browser.get("/ui/jobs").await.status, 303);
}
