//! A link gives no more than its creator has when it is used, and does not outlive the creator's credential.

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass_server::auth::{JwtKeys, JwtSettings, Role, Secret};
use windlass_server::http::Options;
use windlass_testing::{eventually, waiting_for_locks};

use crate::support::people::PASSWORD;
use crate::support::{Answer, Client, TestServer};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const INVITATIONS: &str = "/api/v1/admin/invitations";
const RESETS: &str = "/api/v1/admin/password-resets";

fn path_of(made: &Value) -> String {
    let link = made["link"].as_str().unwrap();
    link[link.find("/ui/").unwrap()..].to_owned()
}

async fn invite(admin: &Client, email: &str) -> String {
    path_of(&admin.post(INVITATIONS, &json!({"email": email, "role": "tenant_admin"})).await.expect(201))
}

async fn create(server: &TestServer, link: &str) -> Answer {
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    stranger.form(link, &[("do", "create"), ("name", "Ada"), ("password", PASSWORD)]).await
}

fn token_id(client: &Client) -> String {
    client.token.as_deref().unwrap().split('_').nth(2).unwrap().to_owned()
}

async fn members(server: &TestServer, tenant: Uuid) -> i64 {
    let count = "select count(*) from windlass.members where tenant_id = $1";
    server.queue.client().await.query_one(count, &[&tenant]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_link_expires_no_later_than_the_token_or_the_jwt_of_its_creator() {
    let jwt = JwtSettings {
        keys: JwtKeys::Secret(Secret::new(SECRET)),
        issuer: "https://issuer.test".to_owned(),
        audience: "windlass".to_owned(),
        tenant_claim: "tenant".to_owned(),
        role_claim: "role".to_owned(),
    };
    let server = TestServer::start_with(Options { jwt: Some(jwt), ..Options::default() }).await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "member@example.com", "viewer").await;
    let end = Timestamp::now().round(jiff::Unit::Second).unwrap() + SignedDuration::from_mins(10);
    let body = json!({"name": "short", "role": "tenant_admin", "expires_at": end.to_string()});
    let made = server.admin.with("x-tenant-id", tenant).post("/api/v1/admin/tokens", &body).await.expect(201);
    let token = Client::new(&server.base, Some(made["token"].as_str().unwrap().to_owned()));
    let claims = json!({"iss": "https://issuer.test", "aud": "windlass", "sub": "ada", "tenant": tenant,
        "role": "tenant_admin", "exp": end.as_second()});
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let jwt = Client::new(&server.base, Some(encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap()));
    for (name, client) in [("token", &token), ("jwt", &jwt)] {
        for (path, body) in [
            (INVITATIONS, json!({"email": "ada@example.com", "role": "tenant_admin"})),
            (
                INVITATIONS,
                json!({"email": "ada@example.com", "role": "viewer", "expires_in_seconds": 2_592_000}),
            ),
            (RESETS, json!({"email": "member@example.com"})),
        ] {
            let shown = client.post(path, &body).await.expect(201)["expires_at"].clone();
            let expires: Timestamp = shown.as_str().unwrap().parse().unwrap();
            assert!(expires <= end, "{name} {path}: {expires} is later than {end}");
            assert!(expires > end - SignedDuration::from_mins(9), "{name} {path}: {expires}");
        }
        let sooner = json!({"email": "ada@example.com", "role": "viewer", "expires_in_seconds": 60});
        let shown = client.post(INVITATIONS, &sooner).await.expect(201)["expires_at"].clone();
        assert!(shown.as_str().unwrap().parse::<Timestamp>().unwrap() < end - SignedDuration::from_mins(1));
    }
    // One that has expired.
    let mut claims = claims;
    claims["exp"] = json!(Timestamp::now().as_second() - 1);
    let late = encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap();
    let body = json!({"email": "bob@example.com", "role": "viewer"});
    Client::new(&server.base, Some(late)).post(INVITATIONS, &body).await.problem(401, "unauthorized");
}

/// Three creators of a tenant, and how each loses access.
async fn creators(server: &TestServer, tenant: Uuid) -> Vec<(&'static str, Client, String)> {
    let token = server.client(tenant, Role::TenantAdmin).await;
    let removed = server.member(tenant, "removed@example.com", "tenant_admin").await;
    let demoted = server.member(tenant, "demoted@example.com", "tenant_admin").await;
    let revoke = format!("/api/v1/admin/tokens/{}", token_id(&token));
    vec![
        ("revoked", token, revoke),
        ("removed", server.browser("removed@example.com").await, format!("/api/v1/admin/members/{removed}")),
        ("demoted", server.browser("demoted@example.com").await, format!("/api/v1/admin/members/{demoted}")),
    ]
}

async fn end(server: &TestServer, tenant: Uuid, (how, path): (&str, &str)) {
    let root = server.admin.with("x-tenant-id", tenant);
    match how {
        "demoted" => root.patch(path, &json!({"role": "operator"})).await.expect(200),
        _ => root.delete(path).await.expect(200),
    };
}

#[tokio::test]
async fn an_invitation_opens_nothing_after_its_creator_has_lost_access() {
    let server = TestServer::start().await;
    let (tenant, other) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    server.member(other, "known@example.com", "viewer").await;
    for (how, creator, path) in creators(&server, tenant).await {
        let fresh = invite(&creator, &format!("{how}-new@example.com")).await;
        let known = invite(&creator, "known@example.com").await;
        end(&server, tenant, (how, &path)).await;
        let before = members(&server, tenant).await;
        assert_eq!(create(&server, &fresh).await.status, 404, "{how}");
        let known = server.browser("known@example.com").await.form(&known, &[("do", "accept")]).await;
        assert_eq!(known.status, 404, "{how}");
        assert_eq!(members(&server, tenant).await, before, "{how}");
    }
    let users = "select count(*) from windlass.users where email like '%-new@example.com'";
    let users: i64 = server.queue.client().await.query_one(users, &[]).await.unwrap().get(0);
    assert_eq!(users, 0, "no account was created either");
    // Of somebody who still has access, and of the installation.
    let root = server.admin.with("x-tenant-id", tenant);
    for (number, creator) in [server.client(tenant, Role::TenantAdmin).await, root].iter().enumerate() {
        let link = invite(creator, &format!("valid-{number}@example.com")).await;
        assert_eq!(create(&server, &link).await.status, 303);
    }
}

#[tokio::test]
async fn a_reset_link_sets_nothing_after_its_creator_has_lost_access() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "boss@example.com", "tenant_admin").await;
    let body = json!({"email": "boss@example.com"});
    let hash = "select password_hash from windlass.users where email = 'boss@example.com'";
    let database = server.queue.client().await;
    let hash = async || database.query_one(hash, &[]).await.unwrap().get::<_, String>(0);
    let before = hash().await;
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    for (how, creator, path) in creators(&server, tenant).await {
        let link = path_of(&creator.post(RESETS, &body).await.expect(201));
        end(&server, tenant, (how, &path)).await;
        let used = stranger.form(&link, &[("new_password", "a password of the attacker")]).await;
        assert_eq!(used.status, 404, "{how}");
        assert_eq!(hash().await, before, "{how}");
    }
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let link = path_of(&admin.post(RESETS, &body).await.expect(201));
    assert_eq!(stranger.form(&link, &[("new_password", "a new and better password")]).await.status, 200);
    assert_ne!(hash().await, before);
}

/// The check waits for a revocation that is not committed yet, and sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_commits_while_an_invitation_is_accepted_comes_first() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let link = invite(&admin, "ada@example.com").await;
    let (revoking, watch) = (server.queue.client().await, server.queue.client().await);
    revoking.batch_execute("begin").await.unwrap();
    let revoke = "select windlass.revoke_token($1, $2)";
    revoking.query_one(revoke, &[&tenant, &token_id(&admin)]).await.unwrap();
    let accepting = create(&server, &link);
    let committing = async {
        eventually("the acceptance waits", async || waiting_for_locks(&watch).await == 1).await;
        revoking.batch_execute("commit").await.unwrap();
    };
    let (accepted, ()) = tokio::join!(accepting, committing);
    assert_eq!(accepted.status, 404, "{}", accepted.text);
    assert_eq!(members(&server, tenant).await, 0);
}

/// the tenant is deleted in steps, and its admins and members exist until the last one.
#[tokio::test]
async fn a_link_of_a_tenant_that_is_being_deleted_sets_nothing() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "boss@example.com", "tenant_admin").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let reset = path_of(&admin.post(RESETS, &json!({"email": "boss@example.com"})).await.expect(201));
    let invitation = invite(&admin, "ada@example.com").await;
    let database = server.queue.client().await;
    let hash = "select password_hash from windlass.users where email = 'boss@example.com'";
    let before: String = database.query_one(hash, &[]).await.unwrap().get(0);
    database
        .execute("update windlass.tenants set status = 'deleting' where id = $1", &[&tenant])
        .await
        .unwrap();
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    assert_eq!(stranger.get(&reset).await.status, 404);
    let used = stranger.form(&reset, &[("new_password", "a password of the attacker")]).await;
    assert_eq!(used.status, 404, "{}", used.text);
    assert_eq!(database.query_one(hash, &[]).await.unwrap().get::<_, String>(0), before);
    assert_eq!(create(&server, &invitation).await.status, 404);
    // The installation still can.
    let reset = path_of(&server.admin.post(RESETS, &json!({"email": "boss@example.com"})).await.expect(201));
    assert_eq!(stranger.form(&reset, &[("new_password", "a new and better password")]).await.status, 200);
}

/// A repeated request does not replace the link of the first one.
#[tokio::test]
async fn a_repeated_request_for_a_reset_link_gets_the_same_response_without_it() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "viewer").await;
    let admin = server.client(tenant, Role::TenantAdmin).await.with("idempotency-key", "once");
    let body = json!({"email": "ada@example.com"});
    let first = admin.post(RESETS, &body).await.expect(201);
    let again = admin.post(RESETS, &body).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let again = again.expect(201);
    assert_eq!((&again["link"], &again["expires_at"]), (&Value::Null, &first["expires_at"]));
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    let used = stranger.form(&path_of(&first), &[("new_password", "a new and better password")]).await;
    assert_eq!(used.status, 200, "the first link is still valid");
}

///
#[tokio::test]
async fn an_invitation_to_a_higher_role_is_not_revoked() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let reads = ["members:manage", "jobs:read", "triggers:read", "events:read"];
    let limited = server.scoped_client(tenant, Role::TenantAdmin, Some(&reads)).await;
    let mut paths = Vec::new();
    for role in ["tenant_admin", "viewer"] {
        let body = json!({"email": format!("{role}@example.com"), "role": role});
        let made = admin.post(INVITATIONS, &body).await.expect(201);
        paths.push(format!("{INVITATIONS}/{}", made["id"].as_str().unwrap()));
    }
    limited.delete(&paths[0]).await.problem(403, "forbidden");
    limited.delete(&paths[1]).await.expect(200);
    admin.delete(&paths[0]).await.expect(200);
}

///
#[tokio::test]
async fn an_expired_token_is_not_rotated() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let old = server.client(tenant, Role::Viewer).await;
    let expire =
        "update windlass.api_tokens set expires_at = clock_timestamp() - interval '1 s' where id = $1";
    server.queue.client().await.execute(expire, &[&token_id(&old)]).await.unwrap();
    let path = format!("/api/v1/admin/tokens/{}/rotate", token_id(&old));
    let later = (Timestamp::now() + SignedDuration::from_mins(10)).to_string();
    for body in [json!({}), json!({"expires_at": later})] {
        admin.post(&path, &body).await.problem(409, "conflict");
    }
}

/// the person may become an administrator again. What somebody else created with their session must not come back with it.
#[tokio::test]
async fn a_link_of_a_creator_who_lost_access_stays_invalid_when_they_get_it_again() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "boss@example.com", "tenant_admin").await;
    let stranger = server.anonymous().with("sec-fetch-site", "same-origin");
    for (how, creator, path) in creators(&server, tenant).await.into_iter().skip(1) {
        let invitation = invite(&creator, &format!("{how}-new@example.com")).await;
        let reset = path_of(&creator.post(RESETS, &json!({"email": "boss@example.com"})).await.expect(201));
        end(&server, tenant, (how, &path)).await;
        match how {
            "demoted" => {
                let root = server.admin.with("x-tenant-id", tenant);
                root.patch(&path, &json!({"role": "tenant_admin"})).await.expect(200);
            }
            _ => {
                server.member(tenant, &format!("{how}@example.com"), "tenant_admin").await;
            }
        }
        assert_eq!(create(&server, &invitation).await.status, 404, "{how}");
        let used = stranger.form(&reset, &[("new_password", "a password of the attacker")]).await;
        assert_eq!(used.status, 404, "{how}");
    }
}

/// the response depends on who has an account.
#[tokio::test]
async fn guesses_of_accounts_by_password_resets_are_limited() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let mut refused = 0;
    for number in 0..40 {
        let guess = json!({"email": format!("guess-{number}@example.com")});
        let answer = admin.post(RESETS, &guess).await;
        refused += usize::from(answer.status == 429);
    }
    assert!(refused > 0, "40 guesses were answered");
}
