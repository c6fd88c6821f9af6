//! A tenant's triggers: schedules, and what waits for events.

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
use windlass::{Act, Cron, NewTrigger, Trigger, TriggerType};

use crate::auth::Caller;
use crate::http::{
    App, Body, Id, IdempotencyKey, Problem, Query, expected_version, keep, page_limit, page_offset, replay,
};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only `event` or `schedule` triggers.
    #[param(inline, value_type = Option<schema::TriggerType>)]
    trigger_type: Option<TriggerType>,
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u16>,
    #[param(minimum = 0, maximum = 10000)]
    offset: Option<u16>,
    /// The `next_cursor` of the page before.
    cursor: Option<Uuid>,
}

/// Some triggers, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Triggers {
    #[schema(value_type = Vec<schema::Trigger>)]
    triggers: Vec<Value>,
    /// For the next page; none after the last.
    next_cursor: Option<Uuid>,
}

/// List triggers, newest first
#[utoipa::path(get, path = "/api/v1/jobs/triggers", tag = "triggers", params(ListQuery), responses((status = 200, body = Triggers)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Triggers>, Problem> {
    let (limit, offset) = (page_limit(query.limit, 100, 500)?, page_offset(query.offset)?);
    let looking = app.queue().look(caller.reach()).await?;
    let triggers = looking.triggers(query.trigger_type, query.cursor, limit, offset.into()).await?;
    looking.end().await?;
    let is_full = triggers.len() == usize::from(limit);
    let next_cursor = triggers.last().filter(|_| is_full).map(|trigger| trigger.id);
    Ok(Json(Triggers { triggers: triggers.iter().map(shown).collect(), next_cursor }))
}

/// Create a trigger
#[utoipa::path(post, path = "/api/v1/jobs/triggers", tag = "triggers", request_body = schema::NewTrigger,
    responses((status = 201, body = schema::Trigger, headers(("ETag" = String, description = "The trigger's generation")))))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<NewTrigger>,
) -> Result<Response, Problem> {
    let new = NewTrigger { created_by: caller.user_id(), ..body.value };
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let trigger = acting.create_trigger(&new).await?;
    keep(&acting, &key, StatusCode::CREATED, &shown(&trigger)).await?;
    acting.commit(&Act::new("trigger.create", trigger.id).after(&trigger)).await?;
    let mut response = answer(StatusCode::CREATED, &trigger);
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/jobs/triggers/{}", trigger.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Read a trigger
#[utoipa::path(get, path = "/api/v1/jobs/triggers/{trigger_id}", tag = "triggers", params(("trigger_id" = Uuid, Path)),
    responses((status = 200, body = schema::Trigger, headers(("ETag" = String, description = "The trigger's generation")))))]
pub(crate) async fn read(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let trigger = looking.trigger(id).await?;
    looking.end().await?;
    trigger.map(|trigger| answer(StatusCode::OK, &trigger)).ok_or_else(|| Problem::not_found("trigger"))
}

/// Change a trigger
///
/// What is given is merged over what is there; null takes the default. Nothing of what it was before fires after this. With
/// `If-Match`, only if nobody changed it since: 412 otherwise.
#[utoipa::path(patch, path = "/api/v1/jobs/triggers/{trigger_id}", tag = "triggers", request_body = schema::TriggerFields,
    params(("trigger_id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The generation that was seen")),
    responses((status = 200, body = schema::Trigger, headers(("ETag" = String, description = "The trigger's generation"))),
              (status = 412, description = "It was changed in the meantime")))]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    body: Body<Map<String, Value>>,
) -> Result<Response, Problem> {
    if body.value.contains_key("created_by") {
        return Err(Problem::invalid("/created_by", "is not yours to change"));
    }
    let seen = generation(&headers)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let before = acting.trigger(id).await?;
    let trigger = acting.update_trigger(id, seen, &body.value).await?;
    acting.commit(&Act::new("trigger.update", id).before(&before).after(&trigger)).await?;
    Ok(answer(StatusCode::OK, &trigger))
}

/// Delete a trigger
///
/// What it did stays to be seen. With `If-Match`, only if nobody changed it since.
#[utoipa::path(delete, path = "/api/v1/jobs/triggers/{trigger_id}", tag = "triggers",
    params(("trigger_id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The generation that was seen")),
    responses((status = 204, description = "It is gone"), (status = 412, description = "It was changed in the meantime")))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let seen = generation(&headers)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let before = acting.trigger(id).await?;
    acting.delete_trigger(id, seen).await?;
    acting.commit(&Act::new("trigger.delete", id).before(&before)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is no generation of ours is one that nobody has.
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

fn answer(status: StatusCode, trigger: &Trigger) -> Response {
    let mut response = (status, Json(shown(trigger))).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", trigger.generation)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
