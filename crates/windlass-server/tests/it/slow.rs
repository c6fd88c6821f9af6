//! Requests whose body arrives slowly: the caller is checked again when it is complete.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass::{Definition, NewJob};
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{Role, Secret};
use windlass_testing::{eventually, waiting_for_locks};

use crate::support::people::PASSWORD;
use crate::support::{Client, TestServer, secrets};

fn token_id(client: &Client) -> String {
    client.token.as_deref().unwrap().split('_').nth(2).unwrap().to_owned()
}

/// Sends a request whose body takes a second and a half. `end` runs after the server has the head.
async fn slowly(server: &TestServer, head: &str, body: &str, end: impl Future<Output = ()>) -> StatusCode {
    let mut stream = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let length = body.len();
    let head = format!(
        "{head}\r\nhost: x\r\nsec-fetch-site: same-origin\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut pause = tokio::time::interval(Duration::from_millis(100));
    let (first, rest) = body.as_bytes().split_at(3);
    let (middle, last) = rest.split_at(12);
    for byte in first {
        pause.tick().await;
        stream.write_all(&[*byte]).await.unwrap();
    }
    end.await;
    for byte in middle {
        pause.tick().await;
        stream.write_all(&[*byte]).await.unwrap();
    }
    stream.write_all(last).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    let response = String::from_utf8_lossy(&response);
    response.split(' ').nth(1).unwrap().parse().unwrap()
}

/// a permanent token for somebody whose access ended ten seconds before.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_request_is_rejected_if_its_caller_has_lost_access() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let root = server.admin.with("x-tenant-id", tenant);
    let database = server.queue.client().await;
    let api = format!("{}{}", " ".repeat(15), json!({"name": "slow", "role": "viewer"}));
    let form = format!("{}name=slow&role=viewer", "&".repeat(15));
    let post = |client: &Client| {
        let token = client.token.as_deref().unwrap();
        format!(
            "POST /api/v1/admin/tokens HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json"
        )
    };
    let admin = server.client(tenant, Role::TenantAdmin).await;
    assert_eq!(slowly(&server, &post(&admin), &api, async {}).await, 201, "slow, and valid");
    database.execute("delete from windlass.api_tokens where name = 'slow'", &[]).await.unwrap();
    let revoke = async {
        root.delete(&format!("/api/v1/admin/tokens/{}", token_id(&admin))).await.expect(200);
    };
    assert_eq!(slowly(&server, &post(&admin), &api, revoke).await, 401, "a revoked token");

    let viewer = server.client(tenant, Role::Viewer).await;
    let get =
        format!("GET /api/v1/jobs HTTP/1.1\r\nauthorization: Bearer {}", viewer.token.as_deref().unwrap());
    let revoke = async {
        root.delete(&format!("/api/v1/admin/tokens/{}", token_id(&viewer))).await.expect(200);
    };
    assert_eq!(slowly(&server, &get, &" ".repeat(16), revoke).await, 401, "a read with a body");

    for (email, ends) in [("session@example.com", "sessions"), ("member@example.com", "members")] {
        let user = server.member(tenant, email, "tenant_admin").await;
        let cookie =
            session::sign_in(&server.app, email, Secret::new(PASSWORD), &From::default()).await.unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        secrets::issued(cookie.split_once('=').unwrap().1);
        let head = format!("POST /ui/tokens/new HTTP/1.1\r\ncookie: {cookie}");
        let end = async {
            let ended = format!("delete from windlass.{ends} where user_id = $1");
            assert_eq!(database.execute(&ended, &[&user]).await.unwrap(), 1);
        };
        let status = slowly(&server, &head, &form, end).await;
        assert!(matches!(status.as_u16(), 401 | 403), "{ends}: {status}");
    }
    let made = "select count(*) from windlass.api_tokens where name = 'slow'";
    assert_eq!(database.query_one(made, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// The route needs less than the handler: an operator may act on jobs, and not delete them.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_form_does_not_act_with_a_role_that_was_taken_meanwhile() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let database = server.queue.client().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let user = server.member(tenant, "demoted@example.com", "tenant_admin").await;
    let from = From::default();
    let cookie =
        session::sign_in(&server.app, "demoted@example.com", Secret::new(PASSWORD), &from).await.unwrap();
    let cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
    secrets::issued(cookie.split_once('=').unwrap().1);
    let head = format!(
        "POST /ui/jobs/act HTTP/1.1\r\ncookie: {cookie}\r\ncontent-type: application/x-www-form-urlencoded"
    );
    for (role, expected, left) in [("tenant_admin", 303, 0), ("operator", 403, 1)] {
        let delayed = NewJob::new("a").tenant(tenant).delay(Duration::from_secs(3600));
        let job = server.queue.enqueue(&delayed).await.unwrap().id;
        // Only a job that has ended can be deleted.
        server
            .admin
            .with("x-tenant-id", tenant)
            .post(&format!("/api/v1/jobs/{job}/cancel"), &json!({}))
            .await
            .expect(200);
        let form = format!("{}acting_for={tenant}&act=delete&id={job}", "&".repeat(15));
        let change = async {
            let change = "update windlass.members set role = $1 where user_id = $2";
            assert_eq!(database.execute(change, &[&role, &user]).await.unwrap(), 1);
        };
        assert_eq!(slowly(&server, &head, &form, change).await, expected, "{role}");
        let found = "select count(*) from windlass.jobs where id = $1";
        assert_eq!(database.query_one(found, &[&job]).await.unwrap().get::<_, i64>(0), left, "{role}");
    }
}

/// The same for an administrator who is demoted: an operator creates no tokens.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_created_by_an_administrator_who_was_demoted_meanwhile() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let user = server.member(tenant, "demoted@example.com", "tenant_admin").await;
    let admin = server.browser("demoted@example.com").await;
    let path = "/api/v1/admin/tokens";
    let weak = admin.post(path, &json!({"name": "weak", "role": "viewer"})).await.expect(201);
    let (changing, watch) = (server.queue.client().await, server.queue.client().await);
    let rotate = format!("{path}/{}/rotate", weak["id"].as_str().unwrap());
    let change = "select windlass.set_member_role($1, $2, $3)";
    for (path, body) in
        [(path, json!({"name": "late", "role": "tenant_admin"})), (rotate.as_str(), json!({}))]
    {
        admin.get("/api/v1/me").await.expect(200);
        changing.batch_execute("begin").await.unwrap();
        changing.query_one(change, &[&tenant, &user, &"operator"]).await.unwrap();
        let committing = async {
            eventually("the creation waits", async || waiting_for_locks(&watch).await == 1).await;
            changing.batch_execute("commit").await.unwrap();
        };
        let (created, ()) = tokio::join!(admin.post(path, &body), committing);
        created.problem(401, "unauthorized");
        changing.query_one(change, &[&tenant, &user, &"tenant_admin"]).await.unwrap();
    }
    let made = "select count(*) from windlass.api_tokens where name in ('late', 'weak')";
    assert_eq!(watch.query_one(made, &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// The creation waits for a revocation that is not committed yet, and sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_created_by_one_that_was_revoked_meanwhile() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let path = "/api/v1/admin/tokens";
    let weak = admin.post(path, &json!({"name": "weak", "role": "viewer"})).await.expect(201);
    let (revoking, watch) = (server.queue.client().await, server.queue.client().await);
    let rotate = format!("{path}/{}/rotate", weak["id"].as_str().unwrap());
    for (path, body) in [(path, json!({"name": "late", "role": "viewer"})), (rotate.as_str(), json!({}))] {
        let admin = server.client(tenant, Role::TenantAdmin).await;
        admin.get("/api/v1/me").await.expect(200);
        revoking.batch_execute("begin").await.unwrap();
        let revoke = "select windlass.revoke_token($1, $2)";
        revoking.query_one(revoke, &[&tenant, &token_id(&admin)]).await.unwrap();
        let committing = async {
            eventually("the creation waits", async || waiting_for_locks(&watch).await == 1).await;
            revoking.batch_execute("commit").await.unwrap();
        };
        let (created, ()) = tokio::join!(admin.post(path, &body), committing);
        created.problem(401, "unauthorized");
    }
    let made = "select count(*) from windlass.api_tokens where name in ('late', 'weak')";
    assert_eq!(watch.query_one(made, &[]).await.unwrap().get::<_, i64>(0), 1);
}
