//! Definitions from a file: all of them are created and changed in one transaction, or none.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::admin::{Acting, Fields};

use super::{NewDefinition, keyed};
use crate::auth::Caller;
use crate::http::{App, Body, Fault, Problem, ProblemKind};

const MAX_DEFINITIONS: usize = 1000;

/// How often the transaction is repeated after a conflict with another one.
const MAX_REPEATS: u32 = 3;

/// The definitions that should exist.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyBody {
    /// Each with its key. Fields and definitions that are not given do not change.
    #[schema(value_type = Vec<NewDefinition>, max_items = 1000)]
    definitions: Vec<Fields>,
    /// Check everything and return the changes, but change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// What was done, or would be done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Applied {
    /// In the order of the request.
    definitions: Vec<AppliedDefinition>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AppliedDefinition {
    key: String,
    action: ApplyAction,
    /// The changed fields of an existing definition.
    #[schema(value_type = Object)]
    changes: BTreeMap<String, FieldChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApplyAction {
    Create,
    Update,
    Same,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldChange {
    from: Value,
    to: Value,
}

/// Apply definitions
///
/// Creates and changes definitions to match a list, in one transaction: if one is invalid, none is changed.
#[utoipa::path(post, path = "/api/v1/admin/jobs/definitions/apply", tag = "definitions", request_body = ApplyBody,
    responses((status = 200, body = Applied)))]
pub(crate) async fn apply(
    State(app): State<App>,
    caller: Caller,
    body: Body<ApplyBody>,
) -> Result<Json<Applied>, Problem> {
    let ApplyBody { definitions: wanted, dry_run } = body.value;
    if wanted.len() > MAX_DEFINITIONS {
        let message = format!("must have at most {MAX_DEFINITIONS} definitions");
        return Err(Problem::invalid("/definitions", message));
    }
    let mut tries = 0;
    loop {
        match apply_all(&app, &caller, &wanted, dry_run).await {
            // It was rolled back completely, and most probably succeeds now.
            Err(problem) if problem.kind == ProblemKind::Contention && tries < MAX_REPEATS => tries += 1,
            applied => return applied.map(|definitions| Json(Applied { definitions })),
        }
    }
}

async fn apply_all(
    app: &App,
    caller: &Caller,
    wanted: &[Fields],
    dry_run: bool,
) -> Result<Vec<AppliedDefinition>, Problem> {
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    let existing: BTreeMap<String, Value> =
        acting.definitions().await?.into_iter().map(|known| (key_of(&known).to_owned(), known)).collect();
    // Locked in the order of their keys: concurrent requests with other orders would wait for each other.
    let mut by_key: Vec<(&str, usize, &Fields)> = wanted
        .iter()
        .enumerate()
        .map(|(position, wanted)| {
            (wanted.get("key").and_then(Value::as_str).unwrap_or_default(), position, wanted)
        })
        .collect();
    by_key.sort_unstable_by_key(|(key, position, _)| (*key, *position));
    let mut applied = Vec::with_capacity(by_key.len());
    let mut previous = None;
    for (key, position, wanted) in by_key {
        let result = if previous.replace(key) == Some(key) && !key.is_empty() {
            Err(Problem::invalid("/key", "is specified twice"))
        } else {
            apply_one(&acting, existing.get(key), wanted.clone()).await
        };
        applied.push((position, result.map_err(|problem| within(problem, position, key))?));
    }
    // Nothing is recorded, and nothing committed, if all of them are as wanted.
    if !dry_run && applied.iter().any(|(_, one)| one.action != ApplyAction::Same) {
        acting.commit().await?;
    }
    applied.sort_unstable_by_key(|(position, _)| *position);
    Ok(applied.into_iter().map(|(_, one)| one).collect())
}

async fn apply_one(
    acting: &Acting,
    existing: Option<&Value>,
    wanted: Fields,
) -> Result<AppliedDefinition, Problem> {
    let (key, wanted) = keyed(wanted)?;
    let Some(existing) = existing else {
        let mut new = wanted;
        new.insert("key".to_owned(), Value::from(key.as_str()));
        acting.create_definition(&new).await?;
        return Ok(AppliedDefinition { key, action: ApplyAction::Create, changes: BTreeMap::new() });
    };
    let is_change = |(name, value): &(String, Value)| existing.get(name) != Some(value);
    let wanted: Fields = wanted.into_iter().filter(is_change).collect();
    if wanted.is_empty() {
        return Ok(AppliedDefinition { key, action: ApplyAction::Same, changes: BTreeMap::new() });
    }
    let id: Uuid = existing["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
    // Only the compared version is changed: a concurrent edit is a conflict.
    acting.change_definition(id, &wanted, existing["version"].as_str()).await?;
    let change = |(name, to): (String, Value)| {
        let from = existing.get(&name).cloned().unwrap_or_default();
        (name, FieldChange { from, to })
    };
    let changes = wanted.into_iter().map(change).collect();
    Ok(AppliedDefinition { key, action: ApplyAction::Update, changes })
}

/// The problem of one definition as that of the whole list.
fn within(mut problem: Problem, position: usize, key: &str) -> Problem {
    problem.detail = if key.is_empty() {
        format!("definition {}: {}", position + 1, problem.detail)
    } else {
        format!("{key}: {}", problem.detail)
    };
    for Fault { pointer, .. } in &mut problem.errors {
        *pointer = format!("/definitions/{position}{pointer}");
    }
    problem
}

fn key_of(definition: &Value) -> &str {
    definition["key"].as_str().unwrap_or_default()
}
