//! Sessions and tokens under attack: what starts, ends, is counted and is audited.

use serde_json::json;
use uuid::Uuid;
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{Role, Secret, TokenKind, TokenSecret};
use windlass_testing::until_a_session_waits;

use crate::support::people::PASSWORD;
use crate::support::{Client, TestServer};

async fn count(server: &TestServer, query: &str) -> i64 {
    server.queue.client().await.query_one(query, &[]).await.unwrap().get(0)
}

fn browser(server: &TestServer) -> Client {
    server.anonymous().with("sec-fetch-site", "same-origin")
}

/// H1: the password was compared before it was changed, and the session starts after.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_does_not_start_with_a_concurrently_changed_password() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    let (changing, watching) = (server.queue.client().await, server.queue.client().await);
    changing.batch_execute("begin; update windlass.users set password_hash = 'another'").await.unwrap();
    let app = server.app.clone();
    let entering = tokio::spawn(async move {
        session::sign_in(&app, "ada@example.com", Secret::new(PASSWORD), &From::default()).await
    });
    until_a_session_waits(&watching).await;
    changing.batch_execute("commit").await.unwrap();
    let refused = entering.await.unwrap().unwrap_err();
    assert_eq!(refused.kind.status(), 401);
    assert_eq!(count(&server, "select count(*) from windlass.sessions").await, 0);
}

/// M5: a viewer's token wrote 3003 sessions and as many rows of the audit trail in twelve seconds.
#[tokio::test]
async fn the_sessions_of_a_token_are_limited_per_minute_and_at_once() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let token = server.client(tenant, Role::Viewer).await.token.unwrap();
    let (mut started, mut refused) = (0, 0);
    for _ in 0..100 {
        let response = browser(&server).form("/ui/sign-in", &[("token", &token)]).await;
        match response.status.as_u16() {
            303 => started += 1,
            429 => {
                assert!(response.header("retry-after").is_some());
                refused += 1;
            }
            other => panic!("{other}: {}", response.text),
        }
    }
    assert!(started >= 60 && refused > 0, "{started} started, {refused} rejected");
    assert_eq!(count(&server, "select count(*) from windlass.sessions").await, 50, "the oldest have ended");
    let rows = "select count(*) from windlass.audit where action = 'session.begin'";
    assert_eq!(count(&server, rows).await, started);
}

/// L4 and L5.
#[tokio::test]
async fn signing_in_again_ends_the_old_session_and_session_changes_are_audited() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let user = server.member(a, "ada@example.com", "viewer").await;
    server.member(b, "ada@example.com", "viewer").await;
    let first = server.browser("ada@example.com").await;
    first.get("/api/v1/me").await.expect(200);
    let fields = [("email", "ada@example.com"), ("password", PASSWORD)];
    let again = first.form("/ui/sign-in", &fields).await;
    assert_eq!(again.status, 303);
    first.get("/api/v1/me").await.problem(401, "unauthorized");
    let second = server.cookie_browser(again.header("set-cookie").unwrap());
    second.get("/api/v1/me").await.expect(200);

    assert_eq!(second.form("/ui/tenant", &[("tenant", &b.to_string())]).await.status, 303);
    let wrong =
        json!({"current_password": "wrong horse battery", "new_password": "a new and better password"});
    second.post("/api/v1/me/password", &wrong).await.problem(422, "invalid");
    assert_eq!(second.form("/ui/sign-out", &[]).await.status, 303);
    assert_eq!(second.form("/ui/sign-out", &[]).await.status, 303, "none is left");
    let acts =
        "select string_agg(format('%s %s %s', action, outcome, actor), ', ' order by id) from windlass.audit
        where action like 'session.%' or action like 'password.%'";
    let acts: String = server.queue.client().await.query_one(acts, &[]).await.unwrap().get(0);
    let expected = [
        "session.begin done",
        "session.begin done",
        "session.tenant done",
        "password.change denied",
        "session.end done",
    ];
    assert_eq!(acts, expected.map(|act| format!("{act} user:{user}")).join(", "));
}

/// L3: a rejected form had the status of a successful one.
#[tokio::test]
async fn a_forbidden_form_is_rejected_and_audited() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let user = server.member(tenant, "ada@example.com", "tenant_admin").await.to_string();
    let client = server.scoped_client(tenant, Role::TenantAdmin, Some(&["members:manage"])).await;
    let client = client.with("sec-fetch-site", "same-origin");
    let acting = tenant.to_string();
    let acting = ("acting_for", acting.as_str());
    let forms: [(&str, &[(&str, &str)]); 4] = [
        ("/ui/members/new", &[acting, ("email", "eve@example.com"), ("role", "viewer")]),
        ("/ui/members", &[acting, ("user", &user), ("role", "viewer")]),
        ("/ui/members", &[acting, ("remove", &user)]),
        ("/ui/members", &[acting, ("reset", "ada@example.com")]),
    ];
    for (path, fields) in forms {
        assert_eq!(client.form(path, fields).await.status, 403, "{path} {fields:?}");
    }
    let rows = "select count(*) from windlass.audit where outcome = 'denied'";
    assert_eq!(count(&server, rows).await, 4);
}

/// L9.
#[tokio::test]
async fn repeated_failed_sign_ins_are_limited_with_retry_after() {
    let server = TestServer::start().await;
    let mut last = None;
    for _ in 0..11 {
        let fields = [("email", "ada@example.com"), ("password", "guess guess guess")];
        last = Some(browser(&server).form("/ui/sign-in", &fields).await);
    }
    let last = last.unwrap();
    assert_eq!(last.status, 429);
    assert!(last.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert!(last.text.contains("<form"), "the form is shown again");
}

/// L15: a forged secret with the id of a token updated its last use.
#[tokio::test]
async fn only_its_own_secret_updates_the_last_use_of_a_token() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let token = server.client(tenant, Role::Viewer).await.token.unwrap();
    let token = TokenSecret::parse(&token).unwrap();
    let used = format!(
        "select count(*) from windlass.api_tokens where id = '{}' and last_used_at is not null",
        token.id()
    );
    server.queue.find_token(token.id(), Some(&[0; 32])).await.unwrap().unwrap();
    assert_eq!(count(&server, &used).await, 0);
    server.queue.find_token(token.id(), Some(&token.hash())).await.unwrap().unwrap();
    assert_eq!(count(&server, &used).await, 1);
}

/// L17.
#[tokio::test]
async fn the_tokens_of_a_tenant_are_limited_and_old_ones_are_deleted() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let insert = "insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by, revoked_at)
        select $1, $2::text || n, 'api', 'x', '\\x00', 'viewer', 'test', case when $2 = 'ended' then now() - n * interval '1 minute' end
          from generate_series(1, $3::int) n";
    let database = server.queue.client().await;
    database.execute(insert, &[&tenant, &"ended", &1500]).await.unwrap();
    database.execute(insert, &[&tenant, &"valid", &998]).await.unwrap();
    let path = "/api/v1/admin/tokens";
    let body = json!({"name": "x", "role": "viewer"});
    let last = admin.post(path, &body).await.expect(201);
    let ended = "select count(*) from windlass.api_tokens where id like 'ended%'";
    assert_eq!(count(&server, ended).await, 999);
    let problem = admin.post(path, &body).await.problem(422, "invalid");
    assert!(problem["detail"].as_str().unwrap().contains("1000"), "{problem}");
    admin.delete(&format!("{path}/{}", last["id"].as_str().unwrap())).await.expect(200);
    admin.post(path, &body).await.expect(201);
}

/// M8: each unknown credential cost a transaction, and all callers waited.
#[tokio::test]
async fn unknown_credentials_are_rate_limited_and_block_no_known_caller() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    let (known, person) =
        (server.client(tenant, Role::Viewer).await, server.browser("ada@example.com").await);
    for client in [&known, &person] {
        client.get("/api/v1/me").await.expect(200);
    }
    let (mut unknown, mut stopped) = (0, 0);
    for n in 0..100_u32 {
        let made_up = TokenSecret::generate(TokenKind::Api).expose();
        let token = Client::new(&server.base, Some(made_up)).get("/api/v1/me").await;
        let cookie = server.anonymous().with("cookie", format!("windlass={n:043}")).get("/api/v1/me").await;
        for response in [token, cookie] {
            match response.status.as_u16() {
                401 => unknown += 1,
                429 => {
                    assert!(response.header("retry-after").is_some());
                    stopped += 1;
                }
                other => panic!("{other}: {}", response.text),
            }
        }
    }
    assert_eq!((unknown, stopped), (120, 80));
    let link = format!("/ui/invitations/{}", "a".repeat(43));
    assert_eq!(server.anonymous().get(&link).await.status, 429, "links are counted too");
    for client in [&known, &person] {
        client.get("/api/v1/me").await.expect(200);
    }
}

/// a stranger of the same network uses up its lookups.
#[tokio::test]
async fn a_new_session_and_a_new_token_are_known_when_they_are_used_first() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "tenant_admin").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    admin.get("/api/v1/me").await.expect(200);
    let guess = async || {
        let made_up = TokenSecret::generate(TokenKind::Api).expose();
        Client::new(&server.base, Some(made_up)).get("/api/v1/me").await.status.as_u16()
    };
    while guess().await != 429 {}

    let fields = [("email", "ada@example.com"), ("password", PASSWORD)];
    let entered = browser(&server).form("/ui/sign-in", &fields).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    let person = server.cookie_browser(entered.header("set-cookie").unwrap());
    person.get("/ui/jobs").await.expect_text(200);

    let path = "/api/v1/admin/tokens";
    let body = json!({"name": "new", "role": "viewer"});
    let created = admin.post(path, &body).await.expect(201);
    let rotate = format!("{path}/{}/rotate", created["id"].as_str().unwrap());
    let rotated = admin.post(&rotate, &json!({})).await.expect(201);
    for made in [&created, &rotated] {
        let token = made["token"].as_str().unwrap().to_owned();
        Client::new(&server.base, Some(token)).get("/api/v1/me").await.expect(200);
        let id = made["id"].as_str().unwrap();
        let used = format!(
            "select count(*) from windlass.api_tokens where id = '{id}' and last_used_at is not null"
        );
        assert_eq!(count(&server, &used).await, 1, "the first use is recorded");
    }
    let acting = tenant.to_string();
    let fields = [("acting_for", acting.as_str()), ("name", "by form"), ("role", "viewer"), ("do", "save")];
    let page = person.form("/ui/tokens/new", &fields).await;
    let start = page.text.find("wl_api_").unwrap();
    let secret: String =
        page.text[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    Client::new(&server.base, Some(secret)).get("/api/v1/me").await.expect(200);
    assert_eq!(guess().await, 429, "unknown ones are still refused");
    let forged = format!("wl_api_{}_{}", created["id"].as_str().unwrap(), "x".repeat(43));
    let forged = Client::new(&server.base, Some(forged)).get("/api/v1/me").await;
    assert!(matches!(forged.status.as_u16(), 401 | 429), "{}", forged.status);
}

/// L19: the response to a number contained it.
#[tokio::test]
async fn a_password_that_is_not_a_string_is_not_echoed() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    let person = server.browser("ada@example.com").await;
    let body = json!({"current_password": 123_456_789, "new_password": "a new and better password"});
    let response = person.post("/api/v1/me/password", &body).await;
    response.problem(422, "invalid");
    assert!(!response.text.contains("123456789"), "{}", response.text);
}

/// M3: what a tenant learns by accepting its own invitations is audited where the tenant cannot see it.
#[tokio::test]
async fn an_invitation_of_an_account_is_in_the_installations_trail() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    server.member(b, "ada@example.com", "viewer").await;
    let admin = server.client(a, Role::TenantAdmin).await;
    let body = json!({"email": "ada@example.com", "role": "viewer"});
    let made = admin.post("/api/v1/admin/invitations", &body).await.expect(201);
    let link = made["link"].as_str().unwrap();
    let path = &link[link.find("/ui/").unwrap()..];
    let fields = [("do", "create"), ("name", "Eve"), ("password", "a new and better password")];
    assert_eq!(browser(&server).form(path, &fields).await.status, 409);
    let row = "select tenant_id from windlass.audit where action = 'invitation.accept' and outcome = 'denied' and target = $1";
    let database = server.queue.client().await;
    let of: Uuid = database.query_one(row, &[&made["id"].as_str().unwrap()]).await.unwrap().get(0);
    assert_eq!(of, windlass::admin::INSTALLATION);
}
