//! Passwords: changed by their owner, or reset by a link that an administrator creates for an account of the same tenant only.

use serde_json::json;
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{Role, Secret};

use crate::support::people::PASSWORD;
use crate::support::{Client, TestServer};

const NEW: &str = "a new and better password";

async fn signs_in(server: &TestServer, email: &str, password: &str) -> bool {
    session::sign_in(&server.app, email, Secret::new(password), &From::default()).await.is_ok()
}

fn path_of(made: &serde_json::Value) -> String {
    let link = made["link"].as_str().unwrap();
    link[link.find("/ui/").unwrap()..].to_owned()
}

async fn reset_link(admin: &Client, email: &str) -> String {
    path_of(&admin.post("/api/v1/admin/password-resets", &json!({"email": email})).await.expect(201))
}

#[tokio::test]
async fn people_change_their_own_password_and_their_other_sessions_end() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    let (here, elsewhere) =
        (server.browser("ada@example.com").await, server.browser("ada@example.com").await);
    let path = "/api/v1/me/password";
    let body = |current: &str, new: &str| json!({"current_password": current, "new_password": new});
    let wrong = here.post(path, &body("wrong horse battery", NEW)).await.problem(422, "invalid");
    assert_eq!(wrong["errors"][0]["pointer"], "/current_password");
    let short = here.post(path, &body(PASSWORD, "short")).await.problem(422, "invalid");
    assert_eq!(short["errors"][0]["pointer"], "/new_password");
    elsewhere.get("/api/v1/me").await.expect(200);
    here.post(path, &body(PASSWORD, NEW)).await.expect(204);
    here.get("/api/v1/me").await.expect(200);
    elsewhere.get("/api/v1/me").await.problem(401, "unauthorized");
    assert!(signs_in(&server, "ada@example.com", NEW).await);
    assert!(!signs_in(&server, "ada@example.com", PASSWORD).await);

    // The page does the same.
    let page = here.get("/ui/account").await;
    assert!(page.expect_text(200).contains("Change password"));
    let id = tenant.to_string();
    let fields = [("acting_for", id.as_str()), ("current_password", NEW), ("new_password", PASSWORD)];
    assert_eq!(here.form("/ui/account", &fields).await.status, 303);
    assert!(signs_in(&server, "ada@example.com", PASSWORD).await);
    let again = here.form("/ui/account", &fields).await;
    assert_eq!(again.status, 422, "the old one is no longer valid");
    // A token has none.
    let token = server.client(tenant, Role::Viewer).await;
    token.post(path, &body(PASSWORD, NEW)).await.problem(403, "forbidden");
    let acts = "select count(*) from windlass.audit where action = 'password.change' and outcome = 'done'";
    let database = server.queue.client().await;
    assert_eq!(database.query_one(acts, &[]).await.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test]
async fn a_reset_link_sets_a_password_once_and_ends_every_session() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "operator").await;
    let ada = server.browser("ada@example.com").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let first = reset_link(&admin, "ada@example.com").await;
    let link = reset_link(&admin, "ada@example.com").await;
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    assert_eq!(stranger.get(&first).await.status, 404, "a second link replaces the first");
    let page = stranger.get(&link).await;
    assert_eq!(page.header("referrer-policy"), Some("strict-origin"));
    assert!(page.expect_text(200).contains("ada@example.com"));
    assert_eq!(stranger.form(&link, &[("new_password", "short")]).await.status, 422);
    let foreign = server.anonymous().with("sec-fetch-site", "cross-site");
    assert_eq!(foreign.form(&link, &[("new_password", NEW)]).await.status, 403);
    ada.get("/api/v1/me").await.expect(200);
    assert_eq!(stranger.form(&link, &[("new_password", NEW)]).await.status, 200);
    ada.get("/api/v1/me").await.problem(401, "unauthorized");
    assert!(signs_in(&server, "ada@example.com", NEW).await);
    assert_eq!(stranger.form(&link, &[("new_password", PASSWORD)]).await.status, 404, "it has been used");
    assert!(signs_in(&server, "ada@example.com", NEW).await);
    let acts =
        "select string_agg(action, ' ' order by id) from windlass.audit where action like 'password.%'";
    let database = server.queue.client().await;
    let acts: String = database.query_one(acts, &[]).await.unwrap().get(0);
    assert_eq!(acts, "password.reset_link password.reset_link password.reset");
}

/// Otherwise it would be a way into every tenant of the account.
#[tokio::test]
async fn a_tenant_admin_resets_only_accounts_of_no_other_tenant() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let admin = server.client(a, Role::TenantAdmin).await;
    let path = "/api/v1/admin/password-resets";
    for (tenant, email) in
        [(a, "both@example.com"), (b, "both@example.com"), (b, "theirs@example.com"), (a, "root@example.com")]
    {
        server.member(tenant, email, "viewer").await;
    }
    let mine = server.member(a, "mine@example.com", "viewer").await;
    let database = server.queue.client().await;
    let root = "update windlass.users set is_super_admin = true where email = 'root@example.com'";
    database.batch_execute(root).await.unwrap();
    let mut responses = Vec::new();
    for email in ["both@example.com", "theirs@example.com", "root@example.com", "nobody@example.com"] {
        let response = admin.post(path, &json!({"email": email})).await;
        responses.push(response.problem(403, "forbidden"));
        assert!(response.text.contains("ask a super-admin"));
    }
    assert!(
        responses.iter().all(|response| *response == responses[0]),
        "the same response for every reason: {responses:?}"
    );
    assert_eq!(
        database
            .query_one("select count(*) from windlass.password_resets", &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        0
    );

    // Checked again when the link is used: the account has joined another tenant since.
    let link = reset_link(&admin, "mine@example.com").await;
    let join = "insert into windlass.members (tenant_id, user_id, role) values ($1, $2, 'viewer')";
    database.execute(join, &[&b, &mine]).await.unwrap();
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    assert_eq!(stranger.get(&link).await.status, 404);
    assert_eq!(stranger.form(&link, &[("new_password", NEW)]).await.status, 404);
    assert!(signs_in(&server, "mine@example.com", PASSWORD).await);

    // A super-admin may reset every account.
    for email in ["both@example.com", "root@example.com", "mine@example.com"] {
        let link = reset_link(&server.admin, email).await;
        assert_eq!(stranger.form(&link, &[("new_password", NEW)]).await.status, 200, "{email}");
        assert!(signs_in(&server, email, NEW).await);
    }
    server.admin.post(path, &json!({"email": "nobody@example.com"})).await.problem(404, "not-found");
    // One with fewer scopes is not a super-admin here.
    let scoped = server.scoped_client(a, Role::SuperAdmin, Some(&["members:manage"])).await;
    scoped
        .with("x-tenant-id", a)
        .post(path, &json!({"email": "root@example.com"}))
        .await
        .problem(403, "forbidden");
}
