//! The OpenAPI document, built from the annotations of the handlers and the route table: what is common to all routes (the
//! credential, the problems, the headers) is added here, so that no handler can forget it.

mod examples;

use std::sync::LazyLock;

use axum::http::{HeaderMap, Method};
use axum::response::Response;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::prebuilt::Prebuilt;
use super::problem::ProblemKind;
use super::{Audience, Documented, Route, table};
use crate::auth::Permission;

const ABOUT: &str = "A durable, multi-tenant job queue on Postgres.\n\nThe tenant is that of the credential; a super-admin can choose \
one with `X-Tenant-Id`. Failures are `application/problem+json` with a stable `type`. \
An unsupported method returns 405 `method-not-allowed`. A POST that creates an object accepts an `Idempotency-Key`: \
repeating the request with the same key returns the same response; a different request with the same key returns 409.";

/// The route whose requests are authenticated by their signature instead of a credential.
pub const SIGNED: &str = "/api/v1/hooks/{hook}";

/// The complete document.
pub fn document() -> Value {
    let mut document = serde_json::to_value(Documented::openapi()).unwrap_or_default();
    document["info"] = json!({"title": "windlass", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT,
        "license": {"name": "MIT OR Apache-2.0"}});
    document["components"]["securitySchemes"] = json!({
        "token": {"type": "http", "scheme": "bearer", "description": "An API token `wl_…`, or a JWT of the configured issuer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-windlass", "description": "The session of a signed-in user"},
    });
    strict_objects(&mut document["components"]["schemas"]);
    document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"] =
        ProblemKind::ALL.iter().map(|kind| kind.urn()).collect();
    let schemas = document["components"]["schemas"].clone();
    for route in table().iter().filter(|route| route.audience == Audience::Programs) {
        let method = route.method.as_str().to_lowercase();
        if let Some(operation) = document["paths"][route.path].get_mut(&method).and_then(Value::as_object_mut)
        {
            complete(route, operation);
            add_examples(operation, &schemas);
        }
    }
    document
}

static JSON: LazyLock<Prebuilt> = LazyLock::new(|| Prebuilt::new(document().to_string(), "application/json"));

pub(crate) async fn json(headers: HeaderMap) -> Response {
    JSON.respond(&headers)
}

/// Adds to an operation what the route table specifies.
fn complete(route: &Route, operation: &mut Map<String, Value>) {
    let words: Vec<&str> = route
        .path
        .split(['/', '{', '}', '-', '.'])
        .filter(|word| !word.is_empty() && *word != "api" && *word != "v1")
        .collect();
    let id = format!("{}_{}", route.method.as_str().to_lowercase(), words.join("_"));
    operation.insert("operationId".to_owned(), json!(id));
    operation.insert("x-permission".to_owned(), json!(route.permission.as_str()));
    let is_guarded = route.permission != Permission::Anyone;
    let has_body = operation.contains_key("requestBody");
    let creates = is_guarded && has_body && route.method == Method::POST && takes_key(route);
    if is_guarded {
        operation.insert("security".to_owned(), json!([{"token": []}, {"session": []}]));
    }
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    if let Some(parameters) = parameters.as_array_mut() {
        if is_guarded {
            let about = "The slug or id of the tenant; super-admins only";
            let form = json!({"type": "string", "maxLength": 63, "pattern": "^[0-9A-Za-z_-]+$"});
            parameters.push(header("X-Tenant-Id", about, &form));
        }
        if creates {
            let about = "Repeating the request with the same key returns the same response";
            let form = json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"});
            parameters.push(header("Idempotency-Key", about, &form));
        }
    }
    let problems = problems(route, operation);
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for problem in problems {
        let response = responses
            .entry(problem.status().as_str())
            .or_insert_with(|| json!({"description": problem.title()}));
        if response["description"].as_str().unwrap_or_default().is_empty() {
            response["description"] = json!(problem.title());
        }
        let content = &mut response["content"]["application/problem+json"];
        content["schema"] = json!({"$ref": "#/components/schemas/Problem"});
        content["examples"][problem.as_str()] =
            json!({"summary": problem.title(), "value": problem.example()});
    }
    for (_, response) in responses.iter_mut() {
        if response["description"].as_str().unwrap_or_default().is_empty() {
            response["description"] = json!("Success");
        }
    }
}

/// The problems that a route can return.
fn problems(route: &Route, operation: &Map<String, Value>) -> Vec<ProblemKind> {
    use ProblemKind as P;
    let is_guarded = route.permission != Permission::Anyone;
    let has_id = route.path.contains('{');
    let has_body = operation.contains_key("requestBody");
    let parameters = operation.get("parameters").cloned().unwrap_or_default();
    let is_given = |key: &str, value: &str| {
        parameters.as_array().is_some_and(|all| all.iter().any(|parameter| parameter[key] == value))
    };
    let when = [
        (true, &[P::BadRequest][..]),
        // Every route with a credential rejects unknown parameters.
        (is_guarded || has_body || parameters.as_array().is_some_and(|all| !all.is_empty()), &[P::Invalid]),
        (true, &[P::Internal, P::Unavailable, P::Contention, P::Timeout]),
        (is_guarded, &[P::Unauthorized, P::Forbidden, P::NotFound]),
        (is_guarded || route.method == Method::GET, &[P::TooManyRequests]),
        (has_body, &[P::RequestTimeout, P::BodyTooLarge, P::UnsupportedMediaType, P::Conflict]),
        (has_id || route.method == Method::DELETE, &[P::NotFound, P::Conflict]),
        (is_given("name", "If-Match"), &[P::PreconditionFailed]),
        (route.permission == Permission::Work && has_id, &[P::LeaseLost]),
        (enqueues(route), &[P::QuotaReached]),
        (route.path == SIGNED, &[P::Unauthorized, P::TooManyRequests]),
    ];
    when.into_iter().filter(|(holds, _)| *holds).flat_map(|(_, kinds)| kinds.iter().copied()).collect()
}

/// Whether it can queue jobs, and so reach the quota of the tenant.
fn enqueues(route: &Route) -> bool {
    let enqueuing = [
        "/api/v1/jobs",
        "/api/v1/jobs/bulk",
        "/api/v1/jobs/retry",
        "/api/v1/jobs/{job_id}/retry",
        "/api/v1/jobs/triggers/{trigger_id}/run",
        "/api/v1/jobs/triggers/{trigger_id}/backfill",
        "/api/v1/events/{event_id}/retry",
        "/api/v1/worker/jobs/{job_id}/complete",
    ];
    route.method == Method::POST && enqueuing.contains(&route.path)
}

/// Adds an example for every request and response body.
fn add_examples(operation: &mut Map<String, Value>, schemas: &Value) {
    if let Some(body) = operation.get_mut("requestBody") {
        let content = &mut body["content"]["application/json"];
        content["example"] = examples::request(&content["schema"], schemas);
    }
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    for (_, response) in responses.into_iter().flatten() {
        let contents = response.get_mut("content").and_then(Value::as_object_mut);
        for (kind, content) in contents.into_iter().flatten() {
            match kind.as_str() {
                "application/json" => content["example"] = examples::response(&content["schema"], schemas),
                "text/event-stream" => content["example"] = json!("event: counts\ndata: {\"queued\":3}\n\n"),
                _ => {}
            }
        }
    }
}

/// Whether a POST accepts an Idempotency-Key: those that create an object do.
fn takes_key(route: &Route) -> bool {
    let creating = [
        "/api/v1/jobs",
        "/api/v1/jobs/bulk",
        "/api/v1/jobs/triggers",
        "/api/v1/jobs/triggers/{trigger_id}/run",
        "/api/v1/events",
        "/api/v1/admin/jobs/definitions",
        "/api/v1/admin/tenants",
        "/api/v1/admin/tokens",
        "/api/v1/admin/tokens/{token_id}/rotate",
        "/api/v1/admin/invitations",
        "/api/v1/admin/password-resets",
        "/api/v1/retention/holds",
    ];
    creating.contains(&route.path)
}

fn header(name: &str, about: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "header", "description": about, "required": false, "schema": schema})
}

/// Requests with flattened fields: each is one object that rejects unknown fields. The generator would describe it as `allOf` of two such
/// objects, which nothing matches.
const FLATTENED: [(&str, &str); 3] =
    [("NewDefinition", "DefinitionFields"), ("NewTenant", "LimitsChange"), ("TenantChange", "LimitsChange")];

fn strict_objects(schemas: &mut Value) {
    for (name, flattened) in FLATTENED {
        let mut whole = schemas[name].clone();
        let parts = whole.as_object_mut().and_then(|whole| whole.remove("allOf")).unwrap_or_default();
        let own = parts.as_array().into_iter().flatten().find(|part| part.get("properties").is_some());
        let own = own.and_then(Value::as_object).cloned().unwrap_or_default();
        if let (Some(whole), Some(more)) =
            (whole.as_object_mut(), schemas[flattened]["properties"].as_object())
        {
            whole.extend(own);
            whole.insert("additionalProperties".to_owned(), json!(false));
            if let Some(properties) = whole.get_mut("properties").and_then(Value::as_object_mut) {
                properties.extend(more.clone());
            }
        }
        schemas[name] = whole;
    }
}
