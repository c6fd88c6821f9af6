//! The query parameters of the API. A route rejects those that it does not have, before its handler runs: a caller that sends
//! `?dry_run=true` to a route that reads it from the body must not change something by mistake.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::Query;
use axum::http::{Method, Uri};
use serde_json::Value;

use super::problem::Problem;
use super::{Audience, document, table};

/// The parameters of each route, as its description lists them.
static KNOWN: LazyLock<HashMap<(Method, &'static str), Vec<String>>> = LazyLock::new(|| {
    let document = document();
    let names = |operation: &Value| {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let in_query = parameters.filter(|parameter| parameter["in"] == "query");
        in_query.filter_map(|parameter| Some(parameter["name"].as_str()?.to_owned())).collect()
    };
    let routes = table().into_iter().filter(|route| route.audience == Audience::Programs);
    let of_route = routes.map(|route| {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        ((route.method, route.path), names(operation))
    });
    of_route.collect()
});

/// A name that is longer is cut in the message.
const SHOWN: usize = 100;

/// Rejects the first parameter that the route does not have.
pub(super) fn check(method: &Method, path: &'static str, uri: &Uri) -> Result<(), Problem> {
    if uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let known = KNOWN.get(&(method.clone(), path)).map(Vec::as_slice).unwrap_or_default();
    let given: Vec<(String, String)> =
        Query::try_from_uri(uri).map(|query| query.0).map_err(|_| Problem::invalid("?", "must be UTF-8"))?;
    let Some((name, _)) = given.into_iter().find(|(name, _)| !known.contains(name)) else { return Ok(()) };
    let name: String = name.chars().take(SHOWN).collect();
    let message = if known.is_empty() {
        "is not a parameter of this route, which has none".to_owned()
    } else {
        format!("is not a parameter of this route, which has {}", known.join(", "))
    };
    Err(Problem::invalid(format!("?{name}"), message))
}
