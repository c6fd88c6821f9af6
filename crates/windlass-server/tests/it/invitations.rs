//! How people join a tenant: by an invitation that the account accepts, and in no other way.

use futures_util::future::join_all;
use serde_json::json;
use uuid::Uuid;
use windlass_server::auth::Role;
use windlass_testing::eventually;

use crate::support::people::PASSWORD;
use crate::support::{Answer, Client, TestServer};

/// The path of a link, regardless of the host in it.
fn path_of(made: &serde_json::Value) -> String {
    let link = made["link"].as_str().unwrap();
    link[link.find("/ui/").unwrap()..].to_owned()
}

async fn invite(admin: &Client, email: &str, role: &str) -> serde_json::Value {
    admin.post("/api/v1/admin/invitations", &json!({"email": email, "role": role})).await.expect(201)
}

/// A browser without a session, with a page of ours open.
fn stranger(server: &TestServer) -> Client {
    server.anonymous().with("sec-fetch-site", "same-origin")
}

async fn create(server: &TestServer, link: &str, password: &str) -> Answer {
    stranger(server).form(link, &[("do", "create"), ("name", "Ada"), ("password", password)]).await
}

/// The browser that got this response.
fn signed_in(server: &TestServer, response: &Answer) -> Client {
    let mut cookies = response.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap());
    server.cookie_browser(cookies.find(|cookie| cookie.starts_with("windlass=")).unwrap())
}

/// Finding 2: a tenant that adds an address first must gain nothing at the tenant that adds it later.
#[tokio::test]
async fn the_tenant_that_created_an_account_gains_nothing_at_another() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let (of_a, of_b) = (server.client(a, Role::TenantAdmin).await, server.client(b, Role::TenantAdmin).await);
    // A's administrator claims the address of B's chief with a password of his own.
    let link = path_of(&invite(&of_a, "ceo@b.example", "viewer").await);
    let taken = create(&server, &link, "a password of the attacker").await;
    assert_eq!(taken.status, 303, "{}", taken.text);
    let attacker = signed_in(&server, &taken);
    assert_eq!(attacker.get("/api/v1/me").await.expect(200)["tenant_id"], json!(a));

    let known = invite(&of_b, "ceo@b.example", "tenant_admin").await;
    let fresh = invite(&of_b, "new@b.example", "tenant_admin").await;
    let fields = |made: &serde_json::Value| made.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&known), fields(&fresh), "B learns nothing of the account");
    assert_eq!(of_b.get("/api/v1/admin/members").await.expect(200)["members"], json!([]));

    // Neither the session nor the password gives access to B.
    attacker.with("x-tenant-id", b).get("/api/v1/jobs").await.problem(403, "forbidden");
    let choice = attacker.form("/ui/tenant", &[("tenant", &b.to_string())]).await;
    assert_eq!(choice.status, 403, "{}", choice.text);
    let again = server.browser_with("ceo@b.example", "a password of the attacker").await;
    assert_eq!(again.get("/api/v1/me").await.expect(200)["tenant_id"], json!(a));
    again.with("x-tenant-id", b).get("/api/v1/jobs").await.problem(403, "forbidden");
    // Nor does B's link set another password.
    let page = create(&server, &path_of(&known), "a password of the chief").await;
    assert_eq!(page.status, 409, "{}", page.text);
    assert_eq!(of_b.get("/api/v1/admin/members").await.expect(200)["members"], json!([]));
}

#[tokio::test]
async fn an_invitation_looks_the_same_for_every_address_without_password() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    server.member(a, "ada@example.com", "viewer").await;
    let admin = server.client(b, Role::TenantAdmin).await;
    let (known, fresh) = (
        invite(&admin, "Ada@Example.com", "viewer").await,
        invite(&admin, "new@example.com", "viewer").await,
    );
    assert_eq!(known["email"], "ada@example.com");
    let look = async |made: &serde_json::Value| {
        let page = stranger(&server).get(&path_of(made)).await;
        assert_eq!(page.header("referrer-policy"), Some("strict-origin"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        page.expect_text(200).replace(made["email"].as_str().unwrap(), "")
    };
    assert_eq!(look(&known).await, look(&fresh).await, "the page does not reveal it either");
    for body in [
        json!({"email": "a@b.c", "role": "viewer", "password": PASSWORD}),
        json!({"email": "a@b.c", "role": "viewer", "name": "A"}),
        json!({"email": "nobody", "role": "viewer"}),
        json!({"email": "e\u{200b}ve@b.c", "role": "viewer"}),
        json!({"email": format!("{}@b.c", "a".repeat(400)), "role": "viewer"}),
        json!({"email": "a@b.c", "role": "super_admin"}),
        json!({"email": "a@b.c", "role": "viewer", "expires_in_seconds": 59}),
        json!({"email": "a@b.c", "role": "viewer", "expires_in_seconds": 2_592_001}),
    ] {
        admin.post("/api/v1/admin/invitations", &body).await.problem(422, "invalid");
    }
    let open = admin.get("/api/v1/admin/invitations").await.expect(200);
    assert_eq!(open["invitations"].as_array().unwrap().len(), 2);
    assert!(open["invitations"][0].get("link").is_none(), "the link is shown once");
    let keyed = admin.with("idempotency-key", "once");
    let body = json!({"email": "third@example.com", "role": "viewer"});
    assert!(keyed.post("/api/v1/admin/invitations", &body).await.expect(201)["link"].is_string());
    assert!(keyed.post("/api/v1/admin/invitations", &body).await.expect(201)["link"].is_null());
}

#[tokio::test]
async fn a_new_person_creates_an_account_and_is_a_member_once() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let link = path_of(&invite(&admin, "ada@example.com", "operator").await);
    let short = create(&server, &link, "short").await;
    assert_eq!(short.status, 422);
    assert!(short.text.contains("12 to 200 characters"), "{}", short.text);
    // Many at once, and only one of them creates the account.
    let tries: Vec<String> = (0..6).map(|n| format!("a good password no. {n}")).collect();
    let responses = join_all(tries.iter().map(|password| create(&server, &link, password))).await;
    let accepted: Vec<&Answer> = responses.iter().filter(|response| response.status == 303).collect();
    assert_eq!(accepted.len(), 1, "{responses:?}");
    let me = signed_in(&server, accepted[0]).get("/api/v1/me").await.expect(200);
    assert_eq!((&me["role"], &me["tenant_id"]), (&json!("operator"), &json!(tenant)));
    assert_eq!(stranger(&server).get(&link).await.status, 404, "it has been used");
    let members = admin.get("/api/v1/admin/members").await.expect(200);
    assert_eq!(members["members"].as_array().unwrap().len(), 1);
    assert_eq!(members["members"][0]["name"], "Ada");
    assert!(members["members"][0].get("has_password").is_none());
    let acts = admin.get("/api/v1/admin/audit").await.expect(200);
    let acts: Vec<&str> =
        acts["entries"].as_array().unwrap().iter().map(|act| act["action"].as_str().unwrap()).collect();
    assert_eq!(acts, ["invitation.accept", "invitation.create", "token.create"], "the token is the admin's");
    // A member is not invited again, and their role is changed directly.
    let body = json!({"email": "ada@example.com", "role": "viewer"});
    admin.post("/api/v1/admin/invitations", &body).await.problem(422, "invalid");
    let user = members["members"][0]["user_id"].as_str().unwrap();
    let changed = admin.patch(&format!("/api/v1/admin/members/{user}"), &json!({"role": "viewer"})).await;
    assert_eq!(changed.expect(200)["role"], "viewer");
}

#[tokio::test]
async fn an_account_that_exists_signs_in_to_accept_and_no_other_can() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    server.member(a, "ada@example.com", "viewer").await;
    server.member(a, "eve@example.com", "viewer").await;
    let admin = server.client(b, Role::TenantAdmin).await;
    let link = path_of(&invite(&admin, "ada@example.com", "tenant_admin").await);
    let wrong =
        stranger(&server).form(&link, &[("do", "sign-in"), ("password", "wrong horse battery")]).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    let eve = server.browser("eve@example.com").await;
    assert!(eve.get(&link).await.expect_text(200).contains("This invitation is for"));
    let other = eve.form(&link, &[("do", "accept")]).await;
    assert_eq!(other.status, 409, "{}", other.text);
    assert!(other.text.contains("is for a different email address"), "{}", other.text);
    for act in ["sign-in", "create"] {
        let fields = [("do", act), ("password", PASSWORD)];
        assert_eq!(eve.form(&link, &fields).await.status, 422, "{act} as another person");
    }
    let foreign = server.anonymous().with("sec-fetch-site", "cross-site");
    assert_eq!(foreign.form(&link, &[("do", "accept")]).await.status, 403);
    assert_eq!(admin.get("/api/v1/admin/members").await.expect(200)["members"], json!([]));

    // Already signed in, in many tabs.
    let ada = server.browser("ada@example.com").await;
    assert!(ada.get(&link).await.expect_text(200).contains("Accept invitation"));
    let clicks = join_all((0..4).map(|_| ada.form(&link, &[("do", "accept")]))).await;
    assert_eq!(clicks.iter().filter(|response| response.status == 303).count(), 1, "{clicks:?}");
    let me = ada.get("/api/v1/me").await.expect(200);
    assert_eq!((&me["role"], &me["tenant_id"]), (&json!("tenant_admin"), &json!(b)), "and opens it");

    // By signing in on the page.
    let third = server.queue.tenant("c").await;
    let link =
        path_of(&invite(&server.client(third, Role::TenantAdmin).await, "ada@example.com", "viewer").await);
    let entered = stranger(&server).form(&link, &[("do", "sign-in"), ("password", PASSWORD)]).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    let me = signed_in(&server, &entered).get("/api/v1/me").await.expect(200);
    assert_eq!(me["tenant_id"], json!(third));
}

#[tokio::test]
async fn a_revoked_replaced_or_expired_link_is_rejected() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let first = path_of(&invite(&admin, "ada@example.com", "viewer").await);
    let second = invite(&admin, "ada@example.com", "operator").await;
    let expired = path_of(&invite(&admin, "bob@example.com", "viewer").await);
    let database = server.queue.client().await;
    let over = "update windlass.invitations set expires_at = now() - interval '1 second' where email = 'bob@example.com'";
    assert_eq!(database.execute(over, &[]).await.unwrap(), 1);
    let revoke = format!("/api/v1/admin/invitations/{}", second["id"].as_str().unwrap());
    let other = server.client(server.queue.tenant("b").await, Role::TenantAdmin).await;
    other.delete(&revoke).await.problem(404, "not-found");
    stranger(&server).get(&path_of(&second)).await.expect_text(200);
    admin.delete(&revoke).await.expect(200);
    admin.delete(&revoke).await.problem(404, "not-found");
    let made_up = format!("/ui/invitations/{}", "a".repeat(43));
    for link in [&first, &path_of(&second), &expired, &made_up, &"/ui/invitations/x".to_owned()] {
        assert_eq!(stranger(&server).get(link).await.status, 404);
        assert_eq!(create(&server, link, PASSWORD).await.status, 404);
    }
    assert_eq!(admin.get("/api/v1/admin/invitations").await.expect(200)["invitations"], json!([]));
    let users = "select count(*) from windlass.users";
    assert_eq!(database.query_one(users, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Findings 8 and 17: no one grants permissions that they do not have.
#[tokio::test]
async fn no_one_grants_a_role_with_more_permissions_than_their_own() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let user = server.member(tenant, "ada@example.com", "tenant_admin").await;
    let reads = ["members:manage", "jobs:read", "triggers:read", "events:read"];
    let only = server.scoped_client(tenant, Role::TenantAdmin, Some(&["members:manage"])).await;
    let reader = server.scoped_client(tenant, Role::TenantAdmin, Some(&reads)).await;
    for role in ["viewer", "operator", "tenant_admin"] {
        let body = json!({"email": "eve@example.com", "role": role});
        only.post("/api/v1/admin/invitations", &body).await.problem(403, "forbidden");
        let change = json!({"role": role});
        only.patch(&format!("/api/v1/admin/members/{user}"), &change).await.problem(403, "forbidden");
    }
    invite(&reader, "eve@example.com", "viewer").await;
    let body = json!({"email": "eve@example.com", "role": "operator"});
    reader.post("/api/v1/admin/invitations", &body).await.problem(403, "forbidden");
    let body = json!({"email": "ada@example.com"});
    reader.post("/api/v1/admin/password-resets", &body).await.problem(403, "forbidden");
    let database = server.queue.client().await;
    let roles = "select string_agg(role, ' ') from windlass.members";
    assert_eq!(database.query_one(roles, &[]).await.unwrap().get::<_, String>(0), "tenant_admin");
}

/// A reset that commits while an invitation is being accepted: someone who has lost the account joins no tenant with it.
#[tokio::test]
async fn an_account_that_is_reset_concurrently_cannot_accept() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let user = server.member(a, "ada@example.com", "viewer").await;
    server.browser("ada@example.com").await;
    let of_a = server.client(a, Role::TenantAdmin).await;
    let made =
        of_a.post("/api/v1/admin/password-resets", &json!({"email": "ada@example.com"})).await.expect(201);
    let invited = invite(&server.client(b, Role::TenantAdmin).await, "ada@example.com", "viewer").await;
    let hash = |link: String| {
        use sha2::Digest as _;
        sha2::Sha256::digest(link.rsplit('/').next().unwrap().as_bytes()).to_vec()
    };
    let (reset, invitation) = (hash(path_of(&made)), hash(path_of(&invited)));
    let (one, two, watch) =
        (server.queue.client().await, server.queue.client().await, server.queue.client().await);
    let session: Vec<u8> = watch
        .query_one("select secret_hash from windlass.sessions where user_id = $1", &[&user])
        .await
        .unwrap()
        .get(0);
    one.batch_execute("begin").await.unwrap();
    let who: Option<Uuid> =
        one.query_one("select windlass.reset_password($1, 'x')", &[&reset]).await.unwrap().get(0);
    assert_eq!(who, Some(user));
    let pid: i32 = two.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let accepting = tokio::spawn(async move {
        let accept = "select windlass.accept_invitation($1, $2, $3)";
        two.query_one(accept, &[&b, &invitation, &session])
            .await
            .unwrap()
            .get::<_, Option<serde_json::Value>>(0)
    });
    eventually("it waits for the account", async || {
        let waits = "select cardinality(pg_blocking_pids($1)) > 0";
        watch.query_one(waits, &[&pid]).await.unwrap().get(0)
    })
    .await;
    one.batch_execute("commit").await.unwrap();
    assert_eq!(accepting.await.unwrap(), None);
    let members = "select count(*) from windlass.members where tenant_id = $1";
    assert_eq!(watch.query_one(members, &[&b]).await.unwrap().get::<_, i64>(0), 0);
}
