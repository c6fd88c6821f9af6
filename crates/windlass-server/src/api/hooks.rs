//! Signed webhooks: a service that can call a URL but has no token emits an event, as specified by Standard Webhooks.
//!
//! Checked in this order: the form of the headers, before the body is read; the signature, which authenticates the message; its
//! timestamp, by the clock of the database; and its id, which is stored like an idempotency key, so that a repeated message has no
//! effect.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass::events::NewEvent;
use windlass::internals::text::json::{self, JsonLimits};

use crate::auth::{Caller, Permission, Role, Who};
use crate::hooks::{Hook, Signed};
use crate::http::{
    App, Denial, IdempotencyKey, Problem, ProblemKind, Raw, RawBody, Segment, replay, store_response,
};

/// The allowed difference between the timestamp and the clock. Ids are kept for seven days, which is longer.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
const MAX_ID_LENGTH: usize = 100;
/// The maximum number of log lines per minute about rejected messages, which anyone can send. The audit trail counts all of them.
const MAX_LINES: u32 = 60;

/// Receive a signed event
///
/// For services without a token: the message is authenticated by its signature (Standard Webhooks: HMAC-SHA256 over
/// `id.timestamp.body`). The body becomes the payload of the event. A repeated `webhook-id` gets the same response and has no
/// effect; a timestamp that differs by more than five minutes is rejected.
#[utoipa::path(post, path = "/api/v1/hooks/{hook}", tag = "events", request_body = Value,
    params(("hook" = String, Path, description = "The name of the hook in the hooks file"),
           ("webhook-id" = String, Header, description = "The id of the message"),
           ("webhook-timestamp" = String, Header, description = "When it was sent, in seconds since the Unix epoch"),
           ("webhook-signature" = String, Header, description = "`v1,` and base64; several are separated by spaces")),
    responses((status = 201, body = crate::api::events::EventCreated), (status = 401, description = "The signature or the timestamp is invalid")))]
pub(crate) async fn receive(
    State(app): State<App>,
    Segment(name): Segment,
    raw: Raw,
) -> Result<Response, Problem> {
    let from = (raw.from_address.clone(), raw.request_id.clone());
    let response = accept(&app, &name, raw).await;
    if let Err(problem) = &response
        && problem.kind == ProblemKind::Unauthorized
    {
        if app.rates().has_room(MAX_LINES, "hook refused") {
            let hook = windlass::internals::text::storable(name.as_bytes(), 100);
            tracing::warn!(?hook, reason = problem.detail, "a signed event was rejected");
        }
        app.record_denial(Denial::at_hook(from.0, from.1, &name)).await;
    }
    response
}

async fn accept(app: &App, name: &str, raw: Raw) -> Result<Response, Problem> {
    if !may_be_signed(app, raw.headers()) {
        return Err(rejected(INVALID_SIGNATURE));
    }
    let (from_address, request_id) = (raw.from_address.clone(), raw.request_id.clone());
    let raw = raw.read(app).await?;
    let (hook, id, sent_at) = known(app, name, &raw)?;
    let caller = Caller {
        tenant: Some(hook.tenant),
        scopes: Some(vec![Permission::EmitEvents]),
        from_address,
        request_id,
        ..Caller::new(Who::Hook { name: name.to_owned() }, Role::Operator)
    };
    let of_tenant = app.authenticator().tenant_rate(hook.tenant).await?;
    app.rates().check(&caller, app.options().requests_per_minute, of_tenant)?;
    let payload = payload(&raw.bytes, app.options().max_body_bytes)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if acting.now().await?.duration_since(sent_at).abs() > TOLERANCE {
        return Err(rejected("the timestamp differs by more than five minutes"));
    }
    // With spaces, which an Idempotency-Key header cannot have, so that no caller can use the key of a message.
    let key = IdempotencyKey { key: Some(format!("hook {name} {id}")), tenant: None };
    if let Some(again) = replay(&acting, &key, &Sha256::digest(&raw.bytes)).await? {
        return Ok(again);
    }
    let emitted = acting.emit(&NewEvent::new(&hook.event).payload(&payload)).await?;
    store_response(&acting, &key, StatusCode::CREATED, &json!(emitted)).await?;
    acting.commit().await?;
    Ok((StatusCode::CREATED, Json(emitted)).into_response())
}

/// Whether the body of this message is read. It is not if there is no hook at all, or if its headers cannot be valid. The name of
/// the hook has no influence, so that this does not reveal which hooks exist.
pub(crate) fn may_be_signed(app: &App, headers: &HeaderMap) -> bool {
    let has_id = (1..=MAX_ID_LENGTH).contains(&text(headers, "webhook-id").len());
    let is_signed = headers.contains_key("webhook-signature");
    !app.options().hooks.is_empty() && has_id && is_signed && sent_at(headers).is_some()
}

fn sent_at(headers: &HeaderMap) -> Option<Timestamp> {
    let seconds = text(headers, "webhook-timestamp").parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

/// The hook of this message. An unknown hook and an invalid signature get the same response.
fn known<'a>(app: &'a App, name: &str, raw: &'a RawBody) -> Result<(&'a Hook, &'a str, Timestamp), Problem> {
    let signed = Signed {
        id: text(&raw.headers, "webhook-id"),
        timestamp: text(&raw.headers, "webhook-timestamp"),
        body: &raw.bytes,
        signatures: text(&raw.headers, "webhook-signature"),
    };
    let hook = app.options().hooks.get(name);
    let is_known = hook.map_or_else(|| signed.verify_unknown(), |hook| hook.verifies(&signed));
    match (hook, sent_at(&raw.headers)) {
        (Some(hook), Some(at)) if is_known => Ok((hook, signed.id, at)),
        _ => Err(rejected(INVALID_SIGNATURE)),
    }
}

const INVALID_SIGNATURE: &str = "the signature is invalid, or the hook does not exist";

fn rejected(reason: &str) -> Problem {
    Problem::of(ProblemKind::Unauthorized, reason)
}

/// A header as text; empty if it is missing.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The payload of the event; parsed only after the sender is authenticated.
fn payload(bytes: &[u8], most: usize) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::of(ProblemKind::BadRequest, "the body must be UTF-8"))?;
    json::check(text, &JsonLimits { max_bytes: most, ..JsonLimits::default() })
        .map_err(|error| Problem::invalid(error.pointer, error.problem.to_string()))?;
    serde_json::from_str(text).map_err(|_| Problem::of(ProblemKind::BadRequest, "the body must be JSON"))
}
