//! Definitions: super-admins manage them; callers that can read jobs see the active ones.

pub(crate) mod apply;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::admin::Fields;

use crate::api::admin::tenants::given;
use crate::auth::Caller;
use crate::http::{
    App, Body, Id, IdempotencyKey, PageQuery, Problem, ProblemKind, Query, object, parse, replay,
    store_response,
};

/// A job definition.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "responses are the JSON of the library; this describes it")]
pub(crate) struct Definition {
    id: Uuid,
    #[schema(example = "sync-dropbox")]
    key: String,
    description: String,
    /// JSON Schema of the payload.
    arg_schema: Value,
    timeout_seconds: i32,
    max_attempts: i32,
    is_active: bool,
    queue: String,
    priority: i32,
    min_priority: i32,
    max_priority: i32,
    max_lost: i32,
    max_snoozes: i32,
    /// The maximum number of its jobs that run at the same time; null for no limit.
    max_running: Option<i32>,
    start_deadline_seconds: Option<i32>,
    on_timeout: String,
    on_lost: String,
    backoff: Value,
    uniqueness: Value,
    /// How long jobs of each final status are kept, in seconds.
    retention: Value,
    /// The definition whose job deletes the artifact of a job before the job is purged.
    on_purge: Option<String>,
    /// What is redacted in its jobs, in addition to the defaults: `{expressions, keys}`.
    redaction: Value,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// Changes with every edit; the ETag.
    version: String,
}

/// Fields of a definition. Omitted fields keep their value, or get the default.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DefinitionFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    description: Option<String>,
    /// JSON Schema of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"type": "object", "properties": {"provider_id": {"type": "string", "format": "uuid"}}, "required": ["provider_id"], "additionalProperties": false}))]
    arg_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 604_800, example = 3600)]
    timeout_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000, example = 3)]
    max_attempts: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]*$")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000)]
    priority: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000)]
    min_priority: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000)]
    max_priority: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    max_lost: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 32000)]
    max_snoozes: Option<u16>,
    /// The maximum number of its jobs that run at the same time, over all tenants; null removes the limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 1_000_000, value_type = Option<u32>)]
    max_running: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000)]
    start_deadline_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryOrFail>)]
    on_timeout: Option<RetryOrFail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryOrFail>)]
    on_lost: Option<RetryOrFail>,
    /// `{kind, base_seconds, factor, cap_seconds, jitter}`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    backoff: Option<Value>,
    /// `"active"`, `"forever"` or `{"window_seconds": 60}`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    uniqueness: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    retention: Option<Retention>,
    /// The definition whose job deletes the artifact of a job before the job is purged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
    on_purge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    redaction: Option<RedactionFields>,
}

/// What is redacted in the jobs of a definition, in addition to the defaults.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Redaction)]
pub(crate) struct RedactionFields {
    /// Regular expressions, applied to each line: matches are replaced in output, errors, results, progress and logs, and in the
    /// payload where it is shown.
    #[schema(max_items = 32, example = json!(["\\bsl\\.[A-Za-z0-9_-]{20,}"]))]
    expressions: Vec<String>,
    /// Parts of names of payload fields: their values are redacted where the payload is shown, and in the output of the job.
    #[schema(max_items = 32, example = json!(["iban"]))]
    keys: Vec<String>,
}

/// What to do with a job that timed out, or whose worker was lost.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RetryOrFail {
    Retry,
    Fail,
}

/// How long jobs of each final status are kept, in seconds; forever if omitted.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 315_360_000)]
    succeeded: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 315_360_000)]
    failed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 315_360_000)]
    dead_letter: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 315_360_000)]
    canceled: Option<u32>,
}

/// A new definition: its key and its fields.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "only describes it; `keyed` reads it")]
#[schema(example = json!({"key": "sync-dropbox", "description": "Sync provider updates for tenant",
    "arg_schema": {"type": "object", "properties": {"provider_id": {"type": "string", "format": "uuid"}}, "required": ["provider_id"], "additionalProperties": false},
    "timeout_seconds": 3600, "max_attempts": 3}))]
pub(crate) struct NewDefinition {
    #[schema(min_length = 1, max_length = 200, pattern = "^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
    key: String,
    #[serde(flatten)]
    fields: DefinitionFields,
}

/// Every definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Definitions {
    #[schema(value_type = Vec<Definition>)]
    definitions: Vec<Value>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List definitions
#[utoipa::path(get, path = "/api/v1/admin/jobs/definitions", tag = "definitions", params(PageQuery), responses((status = 200, body = Definitions)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Definitions>, Problem> {
    page_of(&page, all(&app, &caller).await?)
}

async fn all(app: &App, caller: &Caller) -> Result<Vec<Value>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let definitions = reading.definitions().await?;
    reading.end().await?;
    Ok(definitions)
}

fn page_of(page: &PageQuery, all: Vec<Value>) -> Result<Json<Definitions>, Problem> {
    let key = |definition: &Value| definition["key"].as_str().unwrap_or_default().to_owned();
    let (definitions, next_cursor) = page.of(all, key)?;
    Ok(Json(Definitions { definitions, next_cursor }))
}

/// List active definitions
#[utoipa::path(get, path = "/api/v1/jobs/definitions", tag = "definitions", params(PageQuery), responses((status = 200, body = Definitions)))]
pub(crate) async fn list_active(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Definitions>, Problem> {
    let mut active = all(&app, &caller).await?;
    active.retain(|definition| definition["is_active"] == true);
    page_of(&page, active)
}

/// Read a definition
#[utoipa::path(get, path = "/api/v1/admin/jobs/definitions/{definition_id}", tag = "definitions",
    params(("definition_id" = Uuid, Path)),
    responses((status = 200, body = Definition, headers(("ETag" = String, description = "The version of the definition")))))]
pub(crate) async fn read(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let definition = reading.definition(id).await?;
    reading.end().await?;
    Ok(respond(StatusCode::OK, &definition))
}

/// Create a definition
#[utoipa::path(post, path = "/api/v1/admin/jobs/definitions", tag = "definitions", request_body = NewDefinition,
    responses((status = 201, body = Definition, headers(("ETag" = String, description = "The version of the definition")))))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<Fields>,
) -> Result<Response, Problem> {
    let (key_of_new, mut fields) = keyed(body.value)?;
    fields.insert("key".to_owned(), json!(key_of_new));
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let made = acting.create_definition(&fields).await?;
    store_response(&acting, &key, StatusCode::CREATED, &made).await?;
    acting.commit().await?;
    Ok(respond(StatusCode::CREATED, &made))
}

/// Change a definition
///
/// With `If-Match`, only if the version has not changed; otherwise the response is 412.
#[utoipa::path(patch, path = "/api/v1/admin/jobs/definitions/{definition_id}", tag = "definitions", request_body = DefinitionFields,
    params(("definition_id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The expected version")),
    responses((status = 200, body = Definition, headers(("ETag" = String, description = "The version of the definition"))),
              (status = 412, description = "The definition has changed")))]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    body: Body<DefinitionFields>,
) -> Result<Response, Problem> {
    let fields = fields(&body.value)?;
    let expected = crate::http::expected_version(&headers)?;
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    let changed = acting.change_definition(id, &fields, expected.as_deref()).await?;
    acting.commit().await?;
    Ok(respond(StatusCode::OK, &changed))
}

/// The key and the other fields of a definition. `flatten` and `deny_unknown_fields` cannot be combined, so the key is removed first.
fn keyed(mut given: Fields) -> Result<(String, Fields), Problem> {
    let key = given.remove("key").ok_or_else(|| Problem::invalid("/key", "is required"))?;
    let key = key.as_str().ok_or_else(|| Problem::invalid("/key", "must be a string"))?.to_owned();
    let given: DefinitionFields = parse(&Value::Object(given).to_string())?;
    Ok((key, fields(&given)?))
}

fn fields(given: &DefinitionFields) -> Result<Fields, Problem> {
    let invalid = |field: &str, message: &str| Err(Problem::invalid(format!("/{field}"), message));
    if given.description.as_ref().is_some_and(|text| text.chars().count() > 2000) {
        return invalid("description", "must have at most 2000 characters");
    }
    for (field, given) in [("arg_schema", &given.arg_schema), ("backoff", &given.backoff)] {
        if given.as_ref().is_some_and(|given| !given.is_object()) {
            return invalid(field, "must be an object");
        }
    }
    if let Some(kept) = &given.retention {
        let all = [
            ("succeeded", kept.succeeded),
            ("failed", kept.failed),
            ("dead_letter", kept.dead_letter),
            ("canceled", kept.canceled),
        ];
        for (status, seconds) in all {
            if seconds.is_some_and(|seconds| seconds > 315_360_000) {
                return invalid(&format!("retention/{status}"), "must be at most 315360000 (ten years)");
            }
        }
    }
    match serde_json::to_value(given) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Problem::of(ProblemKind::BadRequest, "the fields are invalid")),
    }
}

fn respond(status: StatusCode, definition: &Value) -> Response {
    let version = definition["version"].as_str().unwrap_or_default();
    let mut response = (status, Json(definition)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
