//! Signed hooks: a service that can call a URL but holds no token emits an event, in the form of Standard Webhooks.
//!
//! In this order: the signature, which says that the message is whole and whose it is; its time, by the database's clock; and
//! its id, which is kept as an idempotency key is, so that the same message again is answered and does nothing.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass::json::{self, JsonLimits};
use windlass::{Act, NewEvent};

use crate::auth::{Caller, Permission, Role, Who};
use crate::hooks::{Hook, Signed};
use crate::http::{App, IdempotencyKey, Problem, ProblemKind, Raw, Refusal, keep, replay};

/// How far a message's time may be from ours. Ids are kept for seven days, so that within it none is forgotten.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
const LONGEST_ID: usize = 100;

/// Receive a signed event
///
/// For services that hold no token: the message is known by its signature (Standard Webhooks: HMAC-SHA256 over
/// `id.timestamp.body`). The body becomes the payload of the hook's event. The same `webhook-id` again is answered the same and
/// does nothing; a time that is more than five minutes off is refused.
#[utoipa::path(post, path = "/api/v1/hooks/{hook}", tag = "events", request_body = Value,
    params(("hook" = String, Path, description = "The hook's name in the server's file"),
           ("webhook-id" = String, Header, description = "Of the message; the same again is a repetition"),
           ("webhook-timestamp" = String, Header, description = "When it was sent, in seconds of the Unix epoch"),
           ("webhook-signature" = String, Header, description = "`v1,` and base64; several with spaces between")),
    responses((status = 201, body = crate::api::events::EventCreated), (status = 401, description = "The signature or the time does not fit")))]
pub(crate) async fn receive(
    State(app): State<App>,
    Path(name): Path<String>,
    raw: Raw,
) -> Result<Response, Problem> {
    let answer = accept(&app, &name, &raw).await;
    if answer.as_ref().is_err_and(|problem| problem.kind == ProblemKind::Unauthorized) {
        app.refused(Refusal::at_hook(raw.from_address.clone(), raw.request_id.clone(), &name)).await;
    }
    answer
}

async fn accept(app: &App, name: &str, raw: &Raw) -> Result<Response, Problem> {
    let (hook, id, sent_at) = known(app, name, raw)?;
    let caller = Caller {
        who: Who::Hook { name: name.to_owned() },
        role: Role::Operator,
        tenant: Some(hook.tenant),
        scopes: Some(vec![Permission::EmitEvents]),
        from_address: raw.from_address.clone(),
        request_id: raw.request_id.clone(),
    };
    app.rates().check(&caller, app.options().requests_per_minute, None)?;
    let payload = payload(&raw.bytes, app.options().max_body_bytes)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if acting.now().await?.duration_since(sent_at).abs() > TOLERANCE {
        return Err(refused(name, "the message's time is more than five minutes off"));
    }
    let key = IdempotencyKey(Some(format!("hook:{name}:{id}")));
    if let Some(again) = replay(&acting, &key, &Sha256::digest(&raw.bytes)).await? {
        return Ok(again);
    }
    let emitted = acting.emit(&NewEvent::new(&hook.event).payload(&payload)).await?;
    keep(&acting, &key, StatusCode::CREATED, &json!(emitted)).await?;
    acting.commit(&Act::new("event.emit", emitted.id)).await?;
    Ok((StatusCode::CREATED, Json(emitted)).into_response())
}

/// The hook whose message this is. Whether there is no such hook or the signature is wrong cannot be told from outside.
fn known<'a>(app: &'a App, name: &str, raw: &'a Raw) -> Result<(&'a Hook, &'a str, Timestamp), Problem> {
    let signed = Signed {
        id: text(&raw.headers, "webhook-id"),
        timestamp: text(&raw.headers, "webhook-timestamp"),
        body: &raw.bytes,
        signatures: text(&raw.headers, "webhook-signature"),
    };
    let hook = app.options().hooks.get(name);
    let is_known = hook.map_or_else(|| signed.against_nobody(), |hook| hook.knows(&signed));
    let at = signed.timestamp.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let is_id = (1..=LONGEST_ID).contains(&signed.id.len());
    match (hook, at) {
        (Some(hook), Some(at)) if is_known && is_id => Ok((hook, signed.id, at)),
        _ => Err(refused(name, "the signature does not fit the message, or there is no such hook")),
    }
}

fn refused(hook: &str, why: &str) -> Problem {
    tracing::warn!(hook = %windlass::text::storable(hook.as_bytes(), 100), why, "a signed event was refused");
    Problem::of(ProblemKind::Unauthorized, why)
}

/// A header as text, empty if there is none.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Any JSON that an event may have; read only after its sender is known.
fn payload(bytes: &[u8], most: usize) -> Result<Value, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::of(ProblemKind::BadRequest, "the body is not UTF-8"))?;
    json::check(text, &JsonLimits { max_bytes: most, ..JsonLimits::default() })
        .map_err(|refused| Problem::invalid(refused.pointer, refused.problem.to_string()))?;
    serde_json::from_str(text).map_err(|error| Problem::of(ProblemKind::BadRequest, error.to_string()))
}
