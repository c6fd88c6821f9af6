//! A stream lasts as long as its caller may read it, and its last event gives the reason.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::admin::{Actor, Reach};
use windlass::internals::{NewSession, SessionOf};
use windlass::{Definition, NewJob};
use windlass_server::auth::{JwtKeys, JwtSettings, Role, Secret};
use windlass_server::http::Options;

use crate::support::{Client, TestServer};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A server with a tenant and a job that does not end.
async fn server(options: Options) -> (TestServer, Uuid, Uuid) {
    let server = TestServer::start_with(options).await;
    let tenant = server.queue.tenant("a").await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let job = server.queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
    (server, tenant, job)
}

/// Every stream, open.
async fn open(client: &Client, job: Uuid) -> Vec<(String, Response)> {
    let mut streams = Vec::new();
    for path in [
        "/api/v1/jobs/stream".to_owned(),
        format!("/api/v1/jobs/{job}/logs"),
        "/ui/live".to_owned(),
        format!("/ui/jobs/{job}/log"),
    ] {
        let stream = client.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(stream.status(), 200, "{path}");
        streams.push((path, stream));
    }
    streams
}

/// Each ends on its own, with a reason.
async fn all_end(streams: Vec<(String, Response)>, kind: &str) {
    for (path, stream) in streams {
        let received = stream.text().await.unwrap();
        let last = received.trim_end().rsplit("\n\n").next().unwrap();
        let (event, data) = last.split_once('\n').unwrap_or_else(|| panic!("{path}: {received}"));
        assert_eq!(event, "event: revoked", "{path}: {received}");
        let about: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(about["type"], format!("urn:windlass:problem:{kind}"), "{path}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let (server, tenant, job) = server(Options::default()).await;
    let client = server.client(tenant, Role::Viewer).await;
    let streams = open(&client, job).await;
    let others = open(&server.client(tenant, Role::Viewer).await, job).await;
    let id = client.get("/api/v1/me").await.expect(200)["name"].as_str().unwrap().to_owned();
    let id = id.trim_start_matches("token:");
    server.admin.delete(&format!("/api/v1/admin/tokens/{id}")).await.expect(200);
    all_end(streams, "unauthorized").await;
    let stop = server.app.stopping().clone();
    stop.cancel();
    for (path, stream) in others {
        let received = stream.text().await.unwrap();
        assert!(
            !received.contains("revoked"),
            "{path}: that of another caller continues until the server stops: {received}"
        );
    }
}

/// A person of the tenant who has signed in, as their browser, and their session's hash.
async fn person(server: &TestServer, tenant: Uuid) -> (Client, Vec<u8>) {
    let client = server.queue.client().await;
    let made =
        "insert into windlass.users (email, password_hash) values ('ada@example.com', 'h') returning id";
    let user: Uuid = client.query_one(made, &[]).await.unwrap().get(0);
    let member = "insert into windlass.members (tenant_id, user_id, role) values ($1, $2, 'viewer')";
    client.execute(member, &[&tenant, &user]).await.unwrap();
    let secret = "s".repeat(43);
    let hash = Sha256::digest(&secret).to_vec();
    let of = SessionOf::User { id: user, password_hash: "h" };
    let new =
        NewSession { hash: &hash, of, seconds: 3600, replaces: None, from_address: None, user_agent: None };
    let acting = server.queue.act(Reach::Everything, &Actor::default()).await.unwrap();
    assert!(acting.create_session(&new).await.unwrap());
    acting.commit().await.unwrap();
    (server.anonymous().with("cookie", format!("windlass={secret}")), hash)
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let (server, tenant, job) = server(Options::default()).await;
    let (browser, hash) = person(&server, tenant).await;
    let streams = open(&browser, job).await;
    let ended = "delete from windlass.sessions where secret_hash = $1";
    server.queue.client().await.execute(ended, &[&hash]).await.unwrap();
    all_end(streams, "unauthorized").await;
}

#[tokio::test]
async fn a_stream_ends_when_the_member_is_removed() {
    let (server, tenant, job) = server(Options::default()).await;
    let (browser, _) = person(&server, tenant).await;
    let streams = open(&browser, job).await;
    server.queue.client().await.execute("delete from windlass.members", &[]).await.unwrap();
    // The session continues: the person is known, and is no longer a member.
    all_end(streams, "forbidden").await;
}

#[tokio::test]
async fn a_stream_ends_when_its_jwt_has_expired() {
    let jwt = JwtSettings {
        keys: JwtKeys::Secret(Secret::new(SECRET)),
        issuer: "https://issuer.test".to_owned(),
        audience: "windlass".to_owned(),
        tenant_claim: "tenant".to_owned(),
        role_claim: "role".to_owned(),
    };
    let (server, tenant, job) = server(Options { jwt: Some(jwt), ..Options::default() }).await;
    // It has ten seconds left, in which all streams open.
    let claims = json!({"iss": "https://issuer.test", "aud": "windlass", "sub": "ada", "tenant": tenant, "role": "viewer",
        "exp": jiff::Timestamp::now().as_second() + 10});
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap();
    let streams = open(&Client::new(&server.base, Some(token)), job).await;
    all_end(streams, "unauthorized").await;
}
