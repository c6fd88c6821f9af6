//! Signed hooks, against attackers that change, repeat, forge or delay a message (X-25).

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::DEFAULT_TENANT;
use windlass::events::EventFilter;
use windlass::webhook::Key;
use windlass_server::hooks::Hooks;
use windlass_server::http::Options;

use crate::support::{Answer, TestServer};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "an older secret, still taken";
const BODY: &str = r#"{"provider_id": "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09", "folder_path": "/photos"}"#;

async fn server() -> TestServer {
    let file = format!(
        "[hooks.dropbox]\ntenant = \"{DEFAULT_TENANT}\"\nevent = \"provider.folder.updated\"\nsecrets = [\"{SECRET}\", \"{OLD_SECRET}\"]\n
         [hooks.other]\ntenant = \"{DEFAULT_TENANT}\"\nevent = \"list.created\"\nsecrets = [\"another secret of sixteen\"]\n"
    );
    let hooks = Arc::new(Hooks::parse(&file, Path::new(".")).unwrap());
    TestServer::start_with(Options { hooks, ..Options::default() }).await
}

/// A message; the default is genuine.
#[derive(Clone)]
struct Message {
    hook: String,
    id: String,
    at: String,
    body: String,
    signature: String,
}

impl Message {
    fn new(id: &str, ago: SignedDuration, secret: &str) -> Self {
        let at = (Timestamp::now() - ago).as_second();
        Self {
            hook: "dropbox".to_owned(),
            id: id.to_owned(),
            at: at.to_string(),
            body: BODY.to_owned(),
            signature: Key::new(secret).unwrap().sign(id, at, BODY.as_bytes()),
        }
    }

    async fn send(&self, server: &TestServer) -> Answer {
        let client = server
            .anonymous()
            .with("webhook-id", &self.id)
            .with("webhook-timestamp", &self.at)
            .with("webhook-signature", &self.signature)
            .with("content-type", "application/json");
        let request = client.request(reqwest::Method::POST, &format!("/api/v1/hooks/{}", self.hook));
        let response = request.body(self.body.clone()).send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }
}

#[tokio::test]
async fn a_signed_message_becomes_the_hooks_event_and_is_audited() {
    let server = server().await;
    let made = Message::new("m-1", SignedDuration::ZERO, SECRET).send(&server).await.expect(201);
    let events = server.queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap();
    assert_eq!((events.len(), json!(events[0].id)), (1, made["id"].clone()));
    assert_eq!(events[0].name, "provider.folder.updated");
    assert_eq!(events[0].payload["folder_path"], "/photos");
    let trail = "select count(*) from windlass.audit where action = 'event.emit' and actor = 'hook:dropbox'";
    assert_eq!(server.queue.client().await.query_one(trail, &[]).await.unwrap().get::<_, i64>(0), 1);
    // While a secret is rotated both are accepted.
    Message::new("m-2", SignedDuration::ZERO, OLD_SECRET).send(&server).await.expect(201);
}

#[tokio::test]
async fn a_changed_forged_or_delayed_message_is_rejected() {
    let server = server().await;
    let genuine = Message::new("m-1", SignedDuration::ZERO, SECRET);
    let with = |change: fn(&mut Message)| {
        let mut message = genuine.clone();
        change(&mut message);
        message
    };
    let later = |minutes| Message::new("m-1", SignedDuration::from_mins(minutes), SECRET);
    let mut corpus = vec![
        ("another body", with(|message| message.body = message.body.replace("photos", "secret"))),
        ("a space more", with(|message| message.body.push(' '))),
        ("another id", with(|message| message.id = "m-2".to_owned())),
        ("another time", with(|message| message.at = (message.at.parse::<i64>().unwrap() + 1).to_string())),
        ("no time", with(|message| message.at.clear())),
        ("a time that is none", with(|message| message.at = "now".to_owned())),
        ("no id", with(|message| message.id.clear())),
        ("no signature", with(|message| message.signature.clear())),
        ("another version", with(|message| message.signature = message.signature.replace("v1", "v2"))),
        ("half a signature", with(|message| message.signature.truncate(20))),
        ("no base64", with(|message| message.signature = "v1,!!!!".to_owned())),
        ("another hook's", with(|message| message.hook = "other".to_owned())),
        ("a hook that is not there", with(|message| message.hook = "nobody".to_owned())),
        ("another secret", Message::new("m-1", SignedDuration::ZERO, "another tenant's secret")),
        ("six minutes old", later(6)),
        ("six minutes ahead", later(-6)),
    ];
    // Every single bit of the signature counts.
    for position in (3..genuine.signature.len() - 1).step_by(5) {
        let mut message = genuine.clone();
        let flipped = if message.signature.as_bytes()[position] == b'A' { "B" } else { "A" };
        message.signature.replace_range(position..=position, flipped);
        corpus.push(("one character", message));
    }
    for (name, message) in corpus {
        let problem = message.send(&server).await.problem(401, "unauthorized");
        assert!(!problem.to_string().contains("whsec"), "{name}");
    }
    let unknown = with(|message| message.hook = "nobody".to_owned()).send(&server).await;
    let wrong = with(|message| message.signature.clear()).send(&server).await;
    assert_eq!(unknown.text, wrong.text, "the names of the hooks are not revealed");
    assert!(server.queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap().is_empty());
    later(4).send(&server).await.expect(201);
    let rows = "select count(*) from windlass.audit where action = 'hook.receive' and outcome = 'denied' and target in ('dropbox', 'other', 'nobody')";
    let rows: i64 = server.queue.client().await.query_one(rows, &[]).await.unwrap().get(0);
    assert!(rows > 15, "each is in the audit trail, up to the rate of an address: {rows}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_gets_the_same_response_and_does_nothing() {
    let server = server().await;
    let message = Message::new("m-1", SignedDuration::ZERO, SECRET);
    let mut sent = tokio::task::JoinSet::new();
    let server = Arc::new(server);
    for _ in 0..8 {
        let (message, server) = (message.clone(), server.clone());
        sent.spawn(async move { message.send(&server).await.expect(201)["id"].clone() });
    }
    let ids = sent.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(message.send(&server).await.header("idempotency-replayed"), Some("true"));
    let events = server.queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap();
    assert_eq!(events.len(), 1);
    // Also after the event itself was pruned.
    let client = server.queue.client().await;
    client.batch_execute("delete from windlass.event_pending; delete from windlass.event").await.unwrap();
    message.send(&server).await.expect(201);
    assert!(server.queue.events(DEFAULT_TENANT, &EventFilter::default()).await.unwrap().is_empty());
    // The same id for another message is an error of the sender.
    let mut other = message.clone();
    other.body = "{}".to_owned();
    other.signature = Key::new(SECRET).unwrap().sign("m-1", other.at.parse().unwrap(), b"{}");
    other.send(&server).await.problem(409, "conflict");
}

/// A caller that may emit events with its own key cannot use the key of a message.
#[tokio::test]
async fn no_idempotency_key_replaces_a_message_id() {
    let server = server().await;
    let operator = server.client(DEFAULT_TENANT, windlass_server::auth::Role::Operator).await;
    let event = json!({"name": "a.b"});
    let keyed = operator.with("idempotency-key", "hook:dropbox:m-1");
    keyed.post("/api/v1/events", &event).await.expect(201);
    let keyed = operator.with("idempotency-key", "hook dropbox m-1");
    keyed.post("/api/v1/events", &event).await.problem(400, "bad-request");
    Message::new("m-1", SignedDuration::ZERO, SECRET).send(&server).await.expect(201);
}

/// A-435: the limit of a tenant is that of all its credentials.
#[tokio::test]
async fn the_request_rate_of_a_tenant_applies_to_its_hooks() {
    let server = server().await;
    let limit = json!({"requests_per_minute": 1});
    server.admin.patch(&format!("/api/v1/admin/tenants/{DEFAULT_TENANT}"), &limit).await.expect(200);
    let mut statuses = Vec::new();
    for number in 0..3 {
        let message = Message::new(&format!("m{number}"), SignedDuration::ZERO, SECRET);
        statuses.push(message.send(&server).await.status.as_u16());
    }
    assert_eq!(statuses, [201, 429, 429]);
}
