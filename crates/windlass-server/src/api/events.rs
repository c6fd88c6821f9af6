//! Events: emitting them, and reading what they triggered.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass::events::{Emitted, Event, EventFilter, EventTrigger, NewEvent};

use crate::auth::Caller;
use crate::http::{
    App, Body, Id, IdempotencyKey, PayloadBody, Problem, Query, page_limit, page_offset, replay,
    store_response,
};

/// A new event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "provider.folder.updated", "payload": {"provider_id": "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09", "folder_path": "/photos"}}))]
pub(crate) struct NewEventBody {
    /// The name: words separated by dots.
    #[schema(min_length = 1, max_length = 200, pattern = "^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$")]
    name: String,
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    payload: Option<Value>,
    /// An event with the same id is a duplicate: the response is the first event, and no trigger fires.
    #[schema(min_length = 1, max_length = 500)]
    dedupe_id: Option<String>,
    /// The correlation id of the jobs (default: the id of the event).
    #[schema(min_length = 1, max_length = 500)]
    correlation_id: Option<String>,
    /// A W3C traceparent.
    #[schema(min_length = 1, max_length = 500)]
    trace: Option<String>,
}

/// The created or existing event.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
pub(crate) struct EventCreated {
    id: Uuid,
    is_duplicate: bool,
}

/// Emit an event
///
/// Each matching trigger enqueues its job soon after, exactly once.
#[utoipa::path(post, path = "/api/v1/events", tag = "events", request_body = NewEventBody,
    responses((status = 201, body = EventCreated), (status = 200, body = EventCreated, description = "An event with this dedupe_id exists")))]
pub(crate) async fn emit(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: PayloadBody<NewEventBody>,
) -> Result<Response, Problem> {
    let new = body.value;
    let mut event = NewEvent::new(new.name).payload(&new.payload.unwrap_or_else(|| json!({})));
    event = set(event, new.dedupe_id, NewEvent::dedupe_id);
    event = set(event, new.correlation_id, NewEvent::correlation_id);
    event = set(event, new.trace, NewEvent::trace);
    event = set(event, caller.user_id(), NewEvent::created_by);
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let emitted: Emitted = acting.emit(&event).await?;
    let status = if emitted.is_duplicate { StatusCode::OK } else { StatusCode::CREATED };
    store_response(&acting, &key, status, &json!(emitted)).await?;
    acting.commit().await?;
    Ok((status, Json(emitted)).into_response())
}

fn set<T>(event: NewEvent, value: Option<T>, with: impl FnOnce(NewEvent, T) -> NewEvent) -> NewEvent {
    match value {
        Some(value) => with(event, value),
        None => event,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    name: Option<String>,
    /// Only events for which a trigger failed.
    failed: Option<bool>,
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u16>,
    #[param(minimum = 0, maximum = 10000)]
    offset: Option<u16>,
    /// The `next_cursor` of the previous page.
    cursor: Option<Uuid>,
}

/// A page of events, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Events {
    #[schema(value_type = Vec<EventShown>)]
    events: Vec<Event>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<Uuid>,
}

/// An event and the outcome at each trigger.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
pub(crate) struct EventShown {
    id: Uuid,
    tenant_id: Uuid,
    name: String,
    payload: Value,
    #[schema(format = DateTime)]
    emitted_at: String,
    dedupe_id: Option<String>,
    correlation_id: Option<String>,
    created_by: Option<Uuid>,
    /// Not dispatched yet, or not to all of its triggers.
    is_pending: bool,
    /// Why it could not be dispatched; it is retried automatically.
    problem: Option<String>,
    triggers: Vec<EventTriggerShown>,
}

/// The outcome of an event at one trigger.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
pub(crate) struct EventTriggerShown {
    trigger_id: Uuid,
    /// fired, deduplicated or failed
    outcome: String,
    reason: Option<String>,
    job_id: Option<Uuid>,
}

/// List events, newest first
///
/// A page ends after `limit` events or about 4 MiB, whichever comes first; `next_cursor` continues there.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(EventsQuery), responses((status = 200, body = Events)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Events>, Problem> {
    let (limit, offset) = (page_limit(query.limit, 50, 500)?, page_offset(query.offset)?);
    let mut filter =
        EventFilter::default().only_failed(query.failed.unwrap_or(false)).limit(limit).offset(offset.into());
    filter.name = query.name;
    filter.older_than = query.cursor;
    let reading = app.queue().read(caller.reach()).await?;
    let (events, has_more) = reading.events(&filter).await?;
    reading.end().await?;
    let next_cursor = events.last().filter(|_| has_more).map(|event| event.id);
    Ok(Json(Events { events, next_cursor }))
}

/// Read an event
#[utoipa::path(get, path = "/api/v1/events/{event_id}", tag = "events", params(("event_id" = Uuid, Path)), responses((status = 200, body = EventShown)))]
pub(crate) async fn read(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Json<Event>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let event = reading.event(id).await?;
    reading.end().await?;
    event.map(Json).ok_or_else(|| Problem::not_found("event"))
}

/// The trigger to retry.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBody {
    trigger_id: Uuid,
}

/// Retry an event at a failed trigger
///
/// Uses the current version of the trigger. The response is 409 if the event has not failed at this trigger.
#[utoipa::path(post, path = "/api/v1/events/{event_id}/retry", tag = "events", request_body = RetryBody,
    params(("event_id" = Uuid, Path)), responses((status = 200, body = EventTriggerShown), (status = 409, description = "The event has not failed at this trigger")))]
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    body: Body<RetryBody>,
) -> Result<Json<EventTrigger>, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let made = acting.retry_event(id, body.value.trigger_id).await?;
    let Some(made) = made else {
        let detail = "the event has not failed at this trigger";
        return Err(Problem::of(crate::http::ProblemKind::Conflict, detail));
    };
    acting.commit().await?;
    Ok(Json(made))
}
