//! Secrets do not stay anywhere: not in the database, not in the logs, not in what is answered later.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{JwtKeys, JwtSettings, Role, Secret};
use windlass_server::http::Options;

use crate::support::TestServer;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_that_was_issued_is_in_the_database_or_in_the_logs() {
    let logs = Captured::default();
    let writer = logs.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let jwt = JwtSettings {
        keys: JwtKeys::Secret(Secret::new("jwt-secret-of-thirty-two-letters")),
        issuer: "i".to_owned(),
        audience: "a".to_owned(),
        tenant_claim: "tenant".to_owned(),
        role_claim: "role".to_owned(),
    };
    let options = Options { jwt: Some(jwt), ..Options::default() };
    assert!(!format!("{options:?}").contains("jwt-secret"));
    let server = TestServer::start_with(options).await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let mut secrets = vec!["jwt-secret-of-thirty-two-letters".to_owned(), "correct horse battery".to_owned()];
    secrets.extend([server.admin.token.clone().unwrap(), admin.token.clone().unwrap()]);
    let keyed = admin.with("idempotency-key", "k");
    let made = keyed.post("/api/v1/admin/tokens", &json!({"name": "t", "role": "viewer"})).await.expect(201);
    let rotate = format!("/api/v1/admin/tokens/{}/rotate", made["id"].as_str().unwrap());
    let rotated = keyed.with("x-nothing", 1).post(&rotate, &json!({})).await;
    rotated.problem(409, "conflict");
    let rotated = admin.with("idempotency-key", "k2").post(&rotate, &json!({})).await.expect(201);
    secrets.extend([made, rotated].iter().map(|token| token["token"].as_str().unwrap().to_owned()));
    let member = json!({"email": "ada@example.com", "role": "operator", "password": "correct horse battery"});
    admin.post("/api/v1/admin/members", &member).await.expect(201);
    let cookie = session::sign_in(
        &server.app,
        "ada@example.com",
        Secret::new("correct horse battery"),
        &From::default(),
    )
    .await
    .unwrap();
    let cookie = cookie.to_str().unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
    server.anonymous().with("cookie", format!("windlass={cookie}")).get("/api/v1/me").await.expect(200);
    secrets.push(cookie);
    admin.get("/api/v1/admin/audit").await.expect(200);

    let dump = dump(&server).await;
    let logged = String::from_utf8_lossy(&logs.0.lock().unwrap()).into_owned();
    assert!(dump.contains("ada@example.com") && !logged.is_empty(), "both were looked at");
    for secret in secrets {
        // Of a token the part that nobody may know; its id is no secret.
        let hidden = secret.rsplit('_').next().unwrap();
        assert!(!dump.contains(hidden), "a secret is in the database: {}…", &hidden[..6]);
        assert!(!logged.contains(hidden), "a secret is in the logs: {}…", &hidden[..6]);
    }
}

/// Every row of every table, as text.
async fn dump(server: &TestServer) -> String {
    let database = server.queue.client().await;
    let tables = "select c.relname::text from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p')";
    let mut dump = String::new();
    for row in database.query(tables, &[]).await.unwrap() {
        let query = format!(
            "select coalesce(string_agg(t::text, E'\\n'), '') from windlass.{} t",
            row.get::<_, String>(0)
        );
        dump.push_str(&database.query_one(&query, &[]).await.unwrap().get::<_, String>(0));
    }
    dump
}
