//! The triggers of a tenant: schedules and event triggers.

pub(crate) mod schema;
pub(crate) mod verbs;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass::schedule::{Cron, NewTrigger, Trigger, TriggerType};

use crate::auth::{Caller, Permission};
use crate::http::{
    App, Body, Id, IdempotencyKey, Problem, Query, expected_version, page_limit, page_offset, replay,
    store_response,
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TriggerListQuery {
    /// Only `event` or `schedule` triggers.
    #[param(inline, value_type = Option<schema::TriggerType>)]
    trigger_type: Option<TriggerType>,
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u16>,
    #[param(minimum = 0, maximum = 10000)]
    offset: Option<u16>,
    /// The `next_cursor` of the previous page.
    cursor: Option<Uuid>,
}

/// A page of triggers, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Triggers {
    #[schema(value_type = Vec<schema::Trigger>)]
    triggers: Vec<Value>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<Uuid>,
}

/// List triggers, newest first
#[utoipa::path(get, path = "/api/v1/jobs/triggers", tag = "triggers", params(TriggerListQuery), responses((status = 200, body = Triggers)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<TriggerListQuery>,
) -> Result<Json<Triggers>, Problem> {
    let (limit, offset) = (page_limit(query.limit, 100, 500)?, page_offset(query.offset)?);
    let reading = app.queue().read(caller.reach()).await?;
    let triggers = reading.triggers(query.trigger_type, query.cursor, limit, offset.into()).await?;
    reading.end().await?;
    let is_full = triggers.len() == usize::from(limit);
    let next_cursor = triggers.last().filter(|_| is_full).map(|trigger| trigger.id);
    Ok(Json(Triggers { triggers: triggers.iter().map(shown).collect(), next_cursor }))
}

/// Create a trigger
#[utoipa::path(post, path = "/api/v1/jobs/triggers", tag = "triggers", request_body = schema::NewTrigger,
    responses((status = 201, body = schema::Trigger, headers(("ETag" = String, description = "The generation of the trigger")))))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<NewTrigger>,
) -> Result<Response, Problem> {
    let mut new = body.value;
    new.created_by = caller.user_id();
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let trigger = acting.create_trigger(&new).await?;
    store_response(&acting, &key, StatusCode::CREATED, &shown(&trigger)).await?;
    acting.commit().await?;
    let mut response = respond(StatusCode::CREATED, shown(&trigger), &trigger);
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/jobs/triggers/{}", trigger.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Read a trigger
#[utoipa::path(get, path = "/api/v1/jobs/triggers/{trigger_id}", tag = "triggers", params(("trigger_id" = Uuid, Path)),
    responses((status = 200, body = schema::Trigger, headers(("ETag" = String, description = "The generation of the trigger")))))]
pub(crate) async fn read(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let trigger = reading.trigger(id).await?;
    reading.end().await?;
    trigger
        .map(|trigger| respond(StatusCode::OK, shown(&trigger), &trigger))
        .ok_or_else(|| Problem::not_found("trigger"))
}

/// Change a trigger
///
/// The fields in the request replace the current ones; null resets a field to its default. The previous version no longer fires.
/// With `If-Match`, only if the generation has not changed; otherwise the response is 412.
/// A credential without `triggers:read` receives only the id and the generation.
#[utoipa::path(patch, path = "/api/v1/jobs/triggers/{trigger_id}", tag = "triggers", request_body = schema::TriggerFields,
    params(("trigger_id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The expected generation")),
    responses((status = 200, body = schema::ChangedTrigger, headers(("ETag" = String, description = "The generation of the trigger"))),
              (status = 412, description = "The trigger has changed")))]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    body: Body<Map<String, Value>>,
) -> Result<Response, Problem> {
    if body.value.contains_key("created_by") {
        return Err(Problem::invalid("/created_by", "cannot be changed"));
    }
    let seen = generation(&headers)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let trigger = acting.update_trigger(id, seen, &body.value).await?;
    acting.commit().await?;
    let content = if caller.may(Permission::ReadTriggers) {
        shown(&trigger)
    } else {
        json!({"id": trigger.id, "generation": trigger.generation})
    };
    Ok(respond(StatusCode::OK, content, &trigger))
}

/// Delete a trigger
///
/// Its history stays visible. With `If-Match`, only if the generation has not changed.
#[utoipa::path(delete, path = "/api/v1/jobs/triggers/{trigger_id}", tag = "triggers",
    params(("trigger_id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The expected generation")),
    responses((status = 204, description = "Deleted"), (status = 412, description = "The trigger has changed")))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let seen = generation(&headers)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    acting.delete_trigger(id, seen).await?;
    acting.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// An invalid generation is treated like one that never matches.
fn generation(headers: &HeaderMap) -> Result<Option<i32>, Problem> {
    Ok(expected_version(headers)?.map(|version| version.parse().unwrap_or(-1)))
}

/// The trigger with its cron expression in words.
fn shown(trigger: &Trigger) -> Value {
    let mut value = json!(trigger);
    let cron = trigger.fields.cron_expr.as_deref().and_then(|text| Cron::parse(text).ok());
    value["in_words"] = json!(cron.map(|cron| cron.in_words()));
    value
}

fn respond(status: StatusCode, content: Value, trigger: &Trigger) -> Response {
    let mut response = (status, Json(content)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", trigger.generation)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
