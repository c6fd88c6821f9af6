//! Credentials and links that end with the access of the person who created them, and requests that are ambiguous.

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;

use crate::support::people::PASSWORD;
use crate::support::{Client, TestServer};

const RESETS: &str = "/api/v1/admin/password-resets";

async fn reset_link(admin: &Client, email: &str) -> String {
    let made = admin.post(RESETS, &json!({"email": email})).await.expect(201);
    let link = made["link"].as_str().unwrap();
    link[link.find("/ui/").unwrap()..].to_owned()
}

fn emails(list: &Value) -> Vec<&str> {
    list["password_resets"].as_array().unwrap().iter().filter_map(|reset| reset["email"].as_str()).collect()
}

///
#[tokio::test]
async fn open_reset_links_are_listed_and_revoked() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let ada = server.member(a, "ada@example.com", "operator").await;
    server.member(a, "boss@example.com", "tenant_admin").await;
    let (admin, other) =
        (server.client(a, Role::TenantAdmin).await, server.client(b, Role::TenantAdmin).await);
    let link = reset_link(&admin, "ada@example.com").await;
    let page = server.anonymous().with("sec-fetch-site", "same-origin");
    page.get(&link).await.expect_text(200);

    let listed = admin.get(RESETS).await.expect(200);
    assert_eq!(emails(&listed), ["ada@example.com"]);
    let secret = link.rsplit('/').next().unwrap();
    assert!(!listed.to_string().contains(secret));
    assert!(emails(&other.get(RESETS).await.expect(200)).is_empty());
    let path = format!("{RESETS}/{ada}");
    other.delete(&path).await.problem(404, "not-found");
    page.get(&link).await.expect_text(200);
    admin.delete(&path).await.expect(200);
    admin.delete(&path).await.problem(404, "not-found");
    assert_eq!(page.get(&link).await.status, 404);
    assert!(emails(&admin.get(RESETS).await.expect(200)).is_empty());

    // The page does the same.
    let link = reset_link(&admin, "ada@example.com").await;
    let boss = server.browser("boss@example.com").await;
    assert!(boss.get("/ui/members").await.expect_text(200).contains("Open password reset links"));
    let (tenant, user) = (a.to_string(), ada.to_string());
    let fields = [("acting_for", tenant.as_str()), ("revoke_reset", user.as_str())];
    assert_eq!(boss.form("/ui/members", &fields).await.status, 303);
    assert_eq!(page.get(&link).await.status, 404);
    let acts =
        "select count(*) from windlass.audit where action = 'password.reset_revoke' and outcome = 'done'";
    let database = server.queue.client().await;
    assert_eq!(database.query_one(acts, &[]).await.unwrap().get::<_, i64>(0), 2);
}

///
#[tokio::test]
async fn a_reset_link_ends_with_the_password_and_with_the_membership() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let ada = server.member(tenant, "ada@example.com", "operator").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let page = server.anonymous().with("sec-fetch-site", "same-origin");
    let link = reset_link(&admin, "ada@example.com").await;
    let browser = server.browser("ada@example.com").await;
    let change = json!({"current_password": PASSWORD, "new_password": "a new and better password"});
    browser.post("/api/v1/me/password", &change).await.expect(204);
    assert_eq!(page.get(&link).await.status, 404, "the password was changed");

    let link = reset_link(&admin, "ada@example.com").await;
    admin.delete(&format!("/api/v1/admin/members/{ada}")).await.expect(200);
    assert_eq!(page.get(&link).await.status, 404, "the member was removed");
    let left = "select count(*) from windlass.password_resets";
    let database = server.queue.client().await;
    assert_eq!(database.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

async fn token(of: &Client, role: &str, scopes: Option<&[&str]>) -> String {
    token_for(of, role, scopes, 24).await
}

async fn token_for(of: &Client, role: &str, scopes: Option<&[&str]>, hours: i64) -> String {
    let expires = (Timestamp::now() + hours.hours()).to_string();
    let body = json!({"name": "t", "role": role,
        "scopes": scopes, "expires_at": expires});
    of.post("/api/v1/admin/tokens", &body).await.expect(201)["token"].as_str().unwrap().to_owned()
}

async fn status_of(server: &TestServer, token: &str) -> u16 {
    server
        .anonymous()
        .with("authorization", format!("Bearer {token}"))
        .get("/api/v1/me")
        .await
        .status
        .as_u16()
}

///
#[tokio::test]
async fn the_tokens_of_a_member_end_with_the_membership_and_with_the_role() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let ada = server.member(tenant, "ada@example.com", "tenant_admin").await;
    server.member(tenant, "bob@example.com", "tenant_admin").await;
    let browser = server.browser("ada@example.com").await;
    let admin = token(&browser, "tenant_admin", None).await;
    let scoped = token(&browser, "tenant_admin", Some(&["jobs:read"])).await;
    let (operator, viewer) = (token(&browser, "operator", None).await, token(&browser, "viewer", None).await);
    let worker = token(&browser, "worker", None).await;
    let by_token = server.anonymous().with("authorization", format!("Bearer {admin}"));
    let second = token_for(&by_token, "tenant_admin", None, 12).await;
    let bobs = token(&server.browser("bob@example.com").await, "tenant_admin", None).await;
    let all = [&admin, &scoped, &operator, &viewer, &worker, &second, &bobs];
    for token in all {
        assert_eq!(status_of(&server, token).await, 200);
    }
    let boss = server.client(tenant, Role::TenantAdmin).await;
    let path = format!("/api/v1/admin/members/{ada}");
    boss.patch(&path, &json!({"role": "operator"})).await.expect(200);
    for (token, status) in all.into_iter().zip([401, 200, 200, 200, 401, 401, 200]) {
        assert_eq!(status_of(&server, token).await, status, "after the demotion");
    }
    boss.delete(&path).await.expect(200);
    for (token, status) in all.into_iter().zip([401, 401, 401, 401, 401, 401, 200]) {
        assert_eq!(status_of(&server, token).await, status, "after the removal");
    }
    let acts = "select count(*) from windlass.audit where action = 'token.revoke' and tenant_id = $1";
    let database = server.queue.client().await;
    assert_eq!(database.query_one(acts, &[&tenant]).await.unwrap().get::<_, i64>(0), 6);
}

/// The twin in SQL: a role has what its rank says, and each scope is in the rank that has it.
#[tokio::test]
async fn the_rank_of_a_token_is_that_of_its_permissions() {
    use windlass_server::auth::Permission;
    let server = TestServer::start().await;
    let database = server.queue.client().await;
    let roles = [(1, Role::Viewer), (2, Role::Operator), (3, Role::TenantAdmin)];
    let read = "select windlass.role_rank($1, $2)";
    for role in [Role::Viewer, Role::Operator, Role::TenantAdmin] {
        for scope in Permission::ALL.into_iter().skip(2).filter(|scope| role.may(*scope)) {
            let needed = roles.iter().find(|(_, role)| role.may(scope)).unwrap().0;
            let row = database.query_one(read, &[&role.as_str(), &vec![scope.as_str()]]).await.unwrap();
            assert_eq!(row.get::<_, i32>(0), needed, "{role} with {scope:?}");
        }
    }
    for (rank, role) in roles.into_iter().chain([(3, Role::Worker), (3, Role::SuperAdmin)]) {
        let row = database.query_one(read, &[&role.as_str(), &None::<Vec<String>>]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), rank, "{role}");
    }
}

///
#[tokio::test]
async fn the_credentials_of_a_tenant_end_when_it_is_marked_for_deletion() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let client = server.client(tenant, Role::TenantAdmin).await;
    client.get("/api/v1/me").await.expect(200);
    client.get("/api/v1/jobs").await.expect(200);
    server.member(tenant, "ada@example.com", "viewer").await;
    let browser = server.browser("ada@example.com").await;
    browser.get("/api/v1/jobs").await.expect(200);
    server.admin.delete(&format!("/api/v1/admin/tenants/{tenant}")).await.expect(202);
    client.get("/api/v1/me").await.problem(401, "unauthorized");
    client.post("/api/v1/jobs/cancel", &json!({"filter": {}})).await.problem(401, "unauthorized");
    assert!(matches!(browser.get("/api/v1/jobs").await.status.as_u16(), 401 | 403));
}

///
#[tokio::test]
async fn a_null_condition_is_rejected_and_changes_nothing() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("kept")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    server.queue.enqueue(&NewJob::new("kept").tenant(tenant)).await.unwrap();
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let openapi = server.anonymous().get("/api/openapi.json").await.expect(200);
    let conditions =
        openapi["components"]["schemas"]["FilterBody"]["properties"].as_object().unwrap().clone();
    assert!(conditions.len() >= 9);
    for verb in ["cancel", "retry", "delete"] {
        let path = format!("/api/v1/jobs/{verb}");
        for name in conditions.keys() {
            let refused =
                admin.post(&path, &json!({"filter": {name.as_str(): null}})).await.problem(422, "invalid");
            assert!(refused.to_string().contains(name.as_str()), "{refused}");
        }
        admin.post(&path, &json!({"ids": null, "filter": {}})).await.problem(422, "invalid");
        admin.post(&path, &json!({"filter": null})).await.problem(422, "invalid");
    }
    let jobs = admin.get("/api/v1/jobs?status=queued").await.expect(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
}
