//! Checks every response of every test against the OpenAPI document: its status is described, and its body fits the schema.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};
use windlass_server::http::{Audience, Route, document, table};

use super::Answer;

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
static ROUTES: LazyLock<Vec<Route>> =
    LazyLock::new(|| table().into_iter().filter(|route| route.audience == Audience::Programs).collect());
static VALIDATORS: LazyLock<Mutex<HashMap<String, Validator>>> = LazyLock::new(Mutex::default);

/// Fails the test if the document does not allow this response.
#[track_caller]
pub(super) fn check(method: &Method, path: &str, reply: &Answer) {
    let path = path.split('?').next().unwrap_or_default();
    let Some(route) = route_of(method, path) else { return };
    let name = format!("{method} {} {}", route.path, reply.status.as_u16());
    let operation = &DOCUMENT["paths"][route.path][method.as_str().to_lowercase()];
    let response = &operation["responses"][reply.status.as_str()];
    assert!(response.is_object(), "{name} is not described: {}", reply.text);
    let kind = reply.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if reply.text.is_empty() || !kind.ends_with("json") {
        return;
    }
    let schema = &response["content"][kind]["schema"];
    assert!(schema.is_object(), "{name} returns {kind}, which is not described");
    let body: Value = serde_json::from_str(&reply.text).unwrap();
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = validators.entry(name.clone()).or_insert_with(|| {
        let mut whole = schema.clone();
        whole["components"] = json!({"schemas": DOCUMENT["components"]["schemas"]});
        jsonschema::validator_for(&whole).unwrap()
    });
    if let Some(error) = validator.iter_errors(&body).next() {
        panic!("{name} does not fit its description at {}: {error}: {body}", error.instance_path());
    }
}

/// The route of a path: of those that match, the one with the most literal segments.
fn route_of(method: &Method, path: &str) -> Option<&'static Route> {
    let parts: Vec<&str> = path.split('/').collect();
    let is_parameter = |part: &str| part.starts_with('{');
    let fits = |route: &&Route| {
        let wanted: Vec<&str> = route.path.split('/').collect();
        wanted.len() == parts.len()
            && wanted.iter().zip(&parts).all(|(wanted, part)| is_parameter(wanted) || wanted == part)
    };
    let all = ROUTES.iter().filter(|route| route.method == *method).filter(fits);
    all.min_by_key(|route| route.path.split('/').filter(|part| is_parameter(part)).count())
}
