//! Secrets are stored nowhere: not in the database, not in the logs, not in later responses.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_server::auth::session::{self, From};
use windlass_server::auth::{JwtKeys, JwtSettings, Role, Secret};
use windlass_server::http::Options;

use crate::support::{self, TestServer};

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
async fn no_issued_secret_is_in_the_database_or_in_the_logs() {
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
    server.member(tenant, "ada@example.com", "operator").await;
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

    let dump = support::secrets::dump(&server.queue.client().await).await;
    let logged = String::from_utf8_lossy(&logs.0.lock().unwrap()).into_owned();
    assert!(dump.contains("ada@example.com") && !logged.is_empty(), "both were read");
    for secret in secrets {
        // Of a token the secret part; its id is not secret.
        let hidden = if secret.starts_with("wl_") { secret.rsplit('_').next().unwrap() } else { &secret };
        assert!(!dump.contains(hidden), "a secret is in the database: {}…", &hidden[..6]);
        assert!(!logged.contains(hidden), "a secret is in the logs: {}…", &hidden[..6]);
    }
}

/// The worker of a job gets its payload; a reader gets it without the values that its definition and their names hide.
#[tokio::test(flavor = "multi_thread")]
async fn hidden_payload_values_are_never_shown() {
    let mut server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let (operator, worker) =
        (server.client(tenant, Role::Operator).await, server.client(tenant, Role::Worker).await);
    let path = "/api/v1/admin/jobs/definitions";
    let rules = |expressions: Value| json!({"key": "pay", "redaction": {"expressions": expressions, "keys": ["iban"]}});
    let refused = server.admin.post(path, &rules(json!(["ok", "("]))).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/redaction/expressions/1", "{refused}");
    let made = server.admin.post(path, &rules(json!([r"\d{4}-\d{4}"]))).await.expect(201);
    assert_eq!(made["redaction"]["keys"], json!(["iban"]));

    let payload =
        json!({"api_key": "k3y-of-zoe", "iban": "DE123456", "note": "card 1234-5678", "city": "Bonn"});
    let shown =
        json!({"api_key": "[redacted]", "iban": "[redacted]", "note": "card [redacted]", "city": "Bonn"});
    let body = json!({"definition_key": "pay", "payload": payload});
    let id = operator.post("/api/v1/jobs", &body).await.expect(201)["id"].as_str().unwrap().to_owned();
    let responses = [
        operator.get(&format!("/api/v1/jobs/{id}")).await,
        operator.get("/api/v1/jobs").await,
        server.admin.with("x-tenant-id", tenant).get(&format!("/api/v1/jobs/{id}")).await,
    ];
    for response in &responses {
        response.expect(200);
        assert!(response.text.contains("Bonn") && response.text.contains("[redacted]"), "{}", response.text);
        for secret in ["k3y-of-zoe", "DE123456", "1234-5678"] {
            assert!(!response.text.contains(secret), "{secret} is shown: {}", response.text);
        }
    }
    assert_eq!(responses[0].json()["payload"], shown);
    let token = Secret::new(operator.token.as_deref().unwrap());
    let cookie = session::sign_in_with_token(&server.app, &token, &From::default()).await.unwrap();
    let browser = server.anonymous().with("cookie", cookie.to_str().unwrap().split(';').next().unwrap());
    let page = browser.get(&format!("/ui/jobs/{id}")).await;
    let page = page.expect_text(200);
    assert!(page.contains("Bonn") && !page.contains("k3y-of-zoe"), "the page shows it");

    let copied = json!({"definition_key": "pay", "payload": shown});
    let refused = operator.post("/api/v1/jobs", &copied).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/payload/api_key", "{refused}");
    let claim = json!({"definition_keys": ["pay"], "limit": 1, "wait_seconds": 10, "lease_seconds": 60});
    let claimed = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
    assert_eq!(claimed["jobs"][0]["payload"], payload, "the worker gets the complete payload");

    let event = json!({"name": "user.made", "payload": {"password": "hunter22", "city": "Bonn"}});
    operator.post("/api/v1/events", &event).await;
    let events = operator.get("/api/v1/events").await;
    assert!(events.text.contains("Bonn") && !events.text.contains("hunter22"), "{}", events.text);
    server.stop().await;
}

/// A-295: a definition with fewer rules would show what the other one hides.
#[tokio::test(flavor = "multi_thread")]
async fn another_definition_does_not_show_the_hidden_values_of_a_trigger() {
    let server = TestServer::start().await;
    let admin = server.client(server.queue.tenant("a").await, Role::TenantAdmin).await;
    for (key, keys) in [("pay", json!(["iban"])), ("pay-again", json!(["iban", "city"])), ("log", json!([]))]
    {
        let definition = json!({"key": key, "redaction": {"expressions": [], "keys": keys}});
        server.admin.post("/api/v1/admin/jobs/definitions", &definition).await.expect(201);
    }
    let new = json!({"label": "pay", "trigger_type": "event", "event_name": "paid", "definition_key": "pay",
        "payload_template": {"iban": "DE123456", "city": "Bonn"}, "conditions": {"to.iban": "DE654321"}});
    let made = admin.post("/api/v1/jobs/triggers", &new).await.expect(201);
    let path = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    let shown = json!({"iban": "[redacted]", "city": "Bonn"});
    for (change, pointer) in [
        (json!({"definition_key": "log"}), "/payload_template/iban"),
        (json!({"definition_key": "log", "payload_template": shown}), "/payload_template/iban"),
        (json!({"definition_key": "log", "payload_template": {"iban": "DE1"}}), "/conditions/to.iban"),
    ] {
        let refused = admin.patch(&path, &change).await.problem(422, "invalid");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{change}: {refused}");
    }
    admin.patch(&path, &json!({"definition_key": "pay-again"})).await.expect(200);
    let entered = json!({"definition_key": "log", "payload_template": {"iban": "DE999999", "city": "Bonn"},
        "conditions": {"to.iban": "DE888888"}});
    let saved = admin.patch(&path, &entered).await.expect(200);
    assert_eq!(saved["payload_template"]["iban"], "DE999999", "it was entered with the change");
    let audit = admin.get("/api/v1/admin/audit").await;
    for hidden in ["DE123456", "DE654321"] {
        assert!(!audit.text.contains(hidden) && !saved.to_string().contains(hidden), "{hidden}");
    }
}

/// A template becomes a payload, and is hidden like one: in every response, page and audit row. Saving it as shown keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_triggers_template_is_hidden_and_kept() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let (admin, viewer) =
        (server.client(tenant, Role::TenantAdmin).await, server.client(tenant, Role::Viewer).await);
    let definition = json!({"key": "pay", "redaction": {"expressions": [], "keys": ["iban"]}});
    server.admin.post("/api/v1/admin/jobs/definitions", &definition).await.expect(201);
    let template =
        json!({"api_key": "k3y-of-zoe", "iban": "DE123456", "token": "{{event.token}}", "city": "Bonn"});
    let shown =
        json!({"api_key": "[redacted]", "iban": "[redacted]", "token": "{{event.token}}", "city": "Bonn"});
    let new = json!({"label": "pay", "trigger_type": "event", "event_name": "paid", "definition_key": "pay",
        "payload_template": template, "conditions": {"password": "hunter22"}});
    let made = admin.post("/api/v1/jobs/triggers", &new).await.expect(201);
    assert_eq!(made["payload_template"], shown);
    let path = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    // Saved as it was shown, with one change.
    let mut edited = shown.clone();
    edited["city"] = json!("Rome");
    let saved = admin
        .patch(&path, &json!({"payload_template": edited, "conditions": made["conditions"]}))
        .await
        .expect(200);
    assert_eq!(saved["payload_template"], edited);
    let client = server.queue.client().await;
    let stored = "select payload_template::text || conditions::text from windlass.job_triggers";
    let stored: String = client.query_one(stored, &[]).await.unwrap().get(0);
    for kept in ["k3y-of-zoe", "DE123456", "hunter22", "Rome"] {
        assert!(stored.contains(kept), "{kept} is lost: {stored}");
    }
    let copied = json!({"payload_template": {"password": "[redacted]"}});
    let refused = admin.patch(&path, &copied).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/payload_template/password", "{refused}");
    let dry = json!({"name": "paid", "payload": {"password": "hunter22"}});
    let responses = [
        viewer.get(&path).await,
        viewer.get("/api/v1/jobs/triggers").await,
        admin.get("/api/v1/admin/audit").await,
        admin.post("/api/v1/jobs/triggers/dry-run", &dry).await,
    ];
    let token = Secret::new(admin.token.as_deref().unwrap());
    let cookie = session::sign_in_with_token(&server.app, &token, &From::default()).await.unwrap();
    let browser = server.anonymous().with("cookie", cookie.to_str().unwrap().split(';').next().unwrap());
    let pages = [
        browser.get(&path.replace("/api/v1/jobs", "/ui")).await,
        browser.get("/ui/triggers").await,
        browser.get("/ui/audit").await,
    ];
    for response in responses.iter().chain(&pages) {
        assert_eq!(response.status, 200, "{}", response.text);
        for secret in ["k3y-of-zoe", "DE123456", "hunter22"] {
            assert!(!response.text.contains(secret), "{secret} is shown: {}", response.text);
        }
    }
}

/// A-403: a PIN as a number, in each place that shows a payload.
#[tokio::test(flavor = "multi_thread")]
async fn hidden_numbers_are_neither_shown_nor_found() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let (admin, viewer) =
        (server.client(tenant, Role::TenantAdmin).await, server.client(tenant, Role::Viewer).await);
    let definition = json!({"key": "pay", "redaction": {"expressions": [], "keys": ["customer_pin"]}});
    server.admin.post("/api/v1/admin/jobs/definitions", &definition).await.expect(201);
    let payload = json!({"customer_pin": 471_147_114, "password": 815_081_508, "max_tokens": 400_200});
    let shown = json!({"customer_pin": "[redacted]", "password": "[redacted]", "max_tokens": 400_200});
    let body = json!({"definition_key": "pay", "payload": payload});
    let id = admin.post("/api/v1/jobs", &body).await.expect(201)["id"].as_str().unwrap().to_owned();
    let event = json!({"name": "typed", "payload": {"password": 815_081_508}});
    admin.post("/api/v1/events", &event).await;
    let new = json!({"label": "pay", "trigger_type": "event", "event_name": "paid", "definition_key": "pay",
        "payload_template": payload, "conditions": {"password": {"gte": 815_081_508}}});
    let made = admin.post("/api/v1/jobs/triggers", &new).await.expect(201);
    assert_eq!(made["payload_template"], shown);
    let path = format!("/api/v1/jobs/triggers/{}", made["id"].as_str().unwrap());
    let same = json!({"payload_template": shown, "conditions": made["conditions"]});
    admin.patch(&path, &same).await.expect(200);
    let stored = "select payload_template, conditions from windlass.job_triggers";
    let stored = server.queue.client().await.query_one(stored, &[]).await.unwrap();
    assert_eq!(stored.get::<_, Value>(0), payload, "saved as it was shown");
    assert_eq!(stored.get::<_, Value>(1), new["conditions"]);

    let token = Secret::new(viewer.token.as_deref().unwrap());
    let cookie = session::sign_in_with_token(&server.app, &token, &From::default()).await.unwrap();
    let browser = server.cookie_browser(cookie.to_str().unwrap());
    let job = viewer.get(&format!("/api/v1/jobs/{id}")).await;
    assert_eq!(job.json()["payload"], shown);
    let dry = json!({"name": "paid", "payload": {"password": 900_000_000}});
    for response in [
        job,
        viewer.get("/api/v1/jobs").await,
        viewer.get("/api/v1/events").await,
        viewer.get(&path).await,
        admin.post("/api/v1/jobs/triggers/dry-run", &dry).await,
        admin.get("/api/v1/admin/audit").await,
        browser.get(&format!("/ui/jobs/{id}")).await,
        browser.get(&path.replace("/api/v1/jobs", "/ui")).await,
    ] {
        assert_eq!(response.status, 200, "{}", response.text);
        for secret in ["471147114", "815081508"] {
            assert!(!response.text.contains(secret), "{secret} is shown: {}", response.text);
        }
    }
    for (text, found) in [("471147114", 0), ("815081508", 0), ("400200", 1)] {
        let page = viewer.get(&format!("/api/v1/jobs?q={text}")).await.expect(200);
        assert_eq!(page["jobs"].as_array().map(Vec::len), Some(found), "{text}: {page}");
    }
    let refused = admin.post("/api/v1/jobs", &json!({"definition_key": "pay", "payload": shown})).await;
    refused.problem(422, "invalid");
}

/// A-404: each dry run compares a guess with the value of a condition that the viewer cannot read.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_a_viewer_does_not_decide_hidden_conditions() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let (admin, viewer) =
        (server.client(tenant, Role::TenantAdmin).await, server.client(tenant, Role::Viewer).await);
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "pay"})).await.expect(201);
    let new = json!({"label": "pay", "trigger_type": "event", "event_name": "paid", "definition_key": "pay",
        "conditions": {"password": {"gte": "MIDDLESECRET"}, "city": "Bonn", "token": {"exists": true}}});
    admin.post("/api/v1/jobs/triggers", &new).await.expect(201);
    let path = "/api/v1/jobs/triggers/dry-run";
    let event = |password: &str, city: &str| json!({"name": "paid", "payload": {"password": password, "city": city, "token": "t"}});
    let mut responses = Vec::new();
    for guess in ["A", "MIDDLESECRET", "Z"] {
        responses.push(viewer.post(path, &event(guess, "Bonn")).await.expect(200));
    }
    assert!(responses.iter().all(|response| *response == responses[0]), "{responses:?}");
    let one = &responses[0]["triggers"][0];
    assert_eq!((&one["label"], &one["payload"]), (&json!("pay"), &Value::Null), "{one}");
    let reason = one["reason"].as_str().unwrap();
    assert!(reason.contains("hidden") && reason.contains("emit"), "{reason}");
    let visible = viewer.post(path, &event("Z", "Rome")).await.expect(200);
    assert_eq!(visible["triggers"], json!([]), "the others are decided");

    for (guess, fires) in [("A", 0), ("Z", 1)] {
        let decided = admin.post(path, &event(guess, "Bonn")).await.expect(200);
        assert_eq!(decided["triggers"].as_array().map(Vec::len), Some(fires), "may emit the event");
    }
    let token = Secret::new(viewer.token.as_deref().unwrap());
    let cookie = session::sign_in_with_token(&server.app, &token, &From::default()).await.unwrap();
    let browser = server.cookie_browser(cookie.to_str().unwrap());
    let (mut pages, acting) = (Vec::new(), tenant.to_string());
    for guess in ["A", "Z"] {
        let payload = event(guess, "Bonn")["payload"].to_string();
        let fields = [("acting_for", acting.as_str()), ("name", "paid"), ("payload", payload.as_str())];
        let page = browser.form("/ui/triggers/dry-run", &fields).await;
        pages.push(page.expect_text(200).contains("conditions of this trigger are hidden"));
    }
    assert_eq!(pages, [true, true]);
}
