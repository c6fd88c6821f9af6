//! Signed hooks: a service that can call a URL but holds no token emits an event, in the form of Standard Webhooks.
//!
//! In this order: the signature, which says that the message is whole and whose it is; its time, by the database's clock; and
//! its id, which is kept as an idempotency key is, so that the same message again is answered and does nothing.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass::json::{self, JsonLimits};
use windlass::{Act, NewEvent};

use crate::auth::{Caller, Permission, Role, Who};
use crate::hooks::{Hook, Signed};
use crate::http::{App, IdempotencyKey, Problem, ProblemKind, Raw, RawBody, Refusal, Segment, keep, replay};

/// How far a message's time may be from ours. Ids are kept for seven days, so that within it none is forgotten.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
const LONGEST_ID: usize = 100;
/// Lines about refused messages that are logged per minute: anybody can cause them. The audit trail counts them all.
const MOST_LINES: u32 = 60;

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
    Segment(name): Segment,
    raw: Raw,
) -> Result<Response, Problem> {
    let from = (raw.from_address.clone(), raw.request_id.clone());
    let answer = accept(&app, &name, raw).await;
    if let Err(problem) = &answer
        && problem.kind == ProblemKind::Unauthorized
    {
        if app.rates().has_room(MOST_LINES, "hook refused") {
            let hook = windlass::text::storable(name.as_bytes(), 100);
            tracing::warn!(?hook, why = problem.detail, "a signed event was refused");
        }
        app.refused(Refusal::at_hook(from.0, from.1, &name)).await;
    }
    answer
}

async fn accept(app: &App, name: &str, raw: Raw) -> Result<Response, Problem> {
    // What is not signed at all is not read. What is, is: whether there is such a hook must not be told by how much is read.
    if !["webhook-id", "webhook-timestamp", "webhook-signature"]
        .iter()
        .all(|name| raw.headers().contains_key(*name))
    {
        return Err(refused(NOT_KNOWN));
    }
    let (from_address, request_id) = (raw.from_address.clone(), raw.request_id.clone());
    let raw = raw.read(app).await?;
    let (hook, id, sent_at) = known(app, name, &raw)?;
    let caller = Caller {
        who: Who::Hook { name: name.to_owned() },
        role: Role::Operator,
        tenant: Some(hook.tenant),
        scopes: Some(vec![Permission::EmitEvents]),
        expires_at: None,
        from_address,
        request_id,
    };
    app.rates().check(&caller, app.options().requests_per_minute, None)?;
    let payload = payload(&raw.bytes, app.options().max_body_bytes)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if acting.now().await?.duration_since(sent_at).abs() > TOLERANCE {
        return Err(refused("the message's time is more than five minutes off"));
    }
    // With spaces, which no Idempotency-Key of a caller has: nobody else can take the key of a message.
    let key = IdempotencyKey { key: Some(format!("hook {name} {id}")), tenant: None };
    if let Some(again) = replay(&acting, &key, &Sha256::digest(&raw.bytes)).await? {
        return Ok(again);
    }
    let emitted = acting.emit(&NewEvent::new(&hook.event).payload(&payload)).await?;
    keep(&acting, &key, StatusCode::CREATED, &json!(emitted)).await?;
    acting.commit(&Act::new("event.emit", emitted.id)).await?;
    Ok((StatusCode::CREATED, Json(emitted)).into_response())
}

/// The hook whose message this is. Whether there is no such hook or the signature is wrong cannot be told from outside.
fn known<'a>(app: &'a App, name: &str, raw: &'a RawBody) -> Result<(&'a Hook, &'a str, Timestamp), Problem> {
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
        _ => Err(refused(NOT_KNOWN)),
    }
}

const NOT_KNOWN: &str = "the signature does not fit the message, or there is no such hook";

fn refused(why: &str) -> Problem {
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
