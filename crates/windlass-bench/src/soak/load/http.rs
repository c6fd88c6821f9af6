//! Callers of the HTTP API: single jobs, with and without an idempotency key; batches; events. A request without a response is repeated,
//! at the other server too, if and only if it has a key.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Callers;
use super::intent::{Author, Intent};
use crate::soak::installation::EVENT_NAME;
use crate::soak::ledger::Fact;

/// How often a request with a key is sent at most.
const MAX_TRIES: u32 = 12;

/// What is known after one request.
pub(super) enum Answer {
    Done(Value),
    /// Nothing was done.
    Refused(String),
    /// It may or may not have been done.
    Unknown,
}

pub(super) async fn single(callers: Callers, mut author: Author) {
    while !callers.is_stopped() {
        if callers.pace.turn(1).await == 0 {
            continue;
        }
        let _running = callers.site.gate.read().await;
        let mut intent = author.intent();
        intent.idempotency_key = author.chance(0.5).then(|| author.uuid().to_string());
        author.note_sent(&intent, "http");
        // A client that repeats a request although it got the response: nothing else must happen.
        let again = if intent.idempotency_key.is_some() && author.chance(0.1) { 2 } else { 1 };
        for _ in 0..again {
            send(&callers, &mut author, &intent).await;
        }
    }
}

async fn send(callers: &Callers, author: &mut Author, intent: &Intent) {
    let tries = if intent.idempotency_key.is_some() { MAX_TRIES } else { 1 };
    let key = intent.idempotency_key.as_deref();
    let body = intent.body();
    // A request whose response was lost may still be committed after another one with its key was rejected.
    let mut was_lost = false;
    for _ in 0..tries {
        let request =
            Request { body: Some(&body), key, ..Request::post(Some(intent.tenant), "/api/v1/jobs") };
        match call(callers, author, request).await {
            Answer::Done(job) => {
                let id = job["id"].as_str().and_then(|id| id.parse().ok());
                // Without a key of its own, 200 instead of 201 means that another job holds the dedupe key.
                let is_duplicate = job["status_code"] == 200;
                return match id {
                    Some(id) => author.note_acked(intent, id, is_duplicate),
                    None => author.note_refused(intent, &job),
                };
            }
            Answer::Refused(_) if was_lost => return,
            Answer::Refused(why) => return author.note_refused(intent, &why),
            Answer::Unknown => {
                was_lost = true;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    }
}

pub(super) async fn bulk(callers: Callers, mut author: Author) {
    while !callers.is_stopped() {
        let count = callers.pace.turn(50).await;
        if count == 0 {
            continue;
        }
        let _running = callers.site.gate.read().await;
        let mut intents: Vec<_> = (0..count).map(|_| author.plain()).collect();
        // One request is of one tenant.
        let tenant = intents[0].tenant;
        for intent in &mut intents {
            intent.tenant = tenant;
            author.note_sent(intent, "http bulk");
        }
        let body = json!({"jobs": intents.iter().map(Intent::body).collect::<Vec<_>>()});
        let request = Request { body: Some(&body), ..Request::post(Some(tenant), "/api/v1/jobs/bulk") };
        match call(&callers, &mut author, request).await {
            Answer::Done(response) => {
                let results = response["results"].as_array().cloned().unwrap_or_default();
                for (intent, result) in intents.iter().zip(results) {
                    match result["job"]["id"].as_str().and_then(|id| id.parse().ok()) {
                        Some(id) => author.note_acked(intent, id, result["status"] == 200),
                        None => author.note_refused(intent, &result),
                    }
                }
            }
            Answer::Refused(why) => intents.iter().for_each(|intent| author.note_refused(intent, &why)),
            Answer::Unknown => {}
        }
    }
}

pub(super) async fn events(callers: Callers, mut author: Author) {
    while !callers.is_stopped() {
        if callers.pace.turn(1).await == 0 {
            continue;
        }
        let _running = callers.site.gate.read().await;
        let event = author.site.next_event();
        let tenant = author.tenants[usize::from(author.chance(0.5))];
        author.site.ledger.note(Fact::Emitted { event, tenant });
        let body = json!({"name": EVENT_NAME, "payload": {"n": event}});
        let request = Request { body: Some(&body), ..Request::post(Some(tenant), "/api/v1/events") };
        match call(&callers, &mut author, request).await {
            Answer::Done(_) => author.site.ledger.note(Fact::EmitAcked { event }),
            Answer::Refused(_) => author.site.ledger.note(Fact::EmitRefused { event }),
            Answer::Unknown => {}
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// None: of the installation.
    pub(super) tenant: Option<Uuid>,
    pub(super) body: Option<&'a Value>,
    pub(super) key: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub(super) fn post(tenant: Option<Uuid>, path: &'a str) -> Self {
        Self { method: "POST", path, tenant, body: None, key: None }
    }
}

/// Sends it to one of the servers.
pub(super) async fn call(callers: &Callers, author: &mut Author, request: Request<'_>) -> Answer {
    let Request { method, path, tenant, body, key } = request;
    let server = &callers.installation.servers[usize::from(author.chance(0.5))];
    let Ok(method) = method.parse() else { return Answer::Refused(format!("unknown method {method}")) };
    let mut request =
        callers.http.request(method, format!("{server}{path}")).bearer_auth(&callers.installation.token);
    if let Some(tenant) = tenant {
        request = request.header("x-tenant-id", tenant.to_string());
    }
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    let Ok(response) = request.send().await else { return Answer::Unknown };
    let status = response.status();
    // The status alone is an acknowledgment.
    let mut value = response.json::<Value>().await.unwrap_or_default();
    if status.is_success() {
        if value.is_object() {
            value["status_code"] = json!(status.as_u16());
        }
        return Answer::Done(value);
    }
    if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
        return Answer::Refused(format!("{status} {}", value["type"].as_str().unwrap_or_default()));
    }
    Answer::Unknown
}
