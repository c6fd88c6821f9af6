//! How long what is finished is kept: a tenant's own rules, how far pruning has come, and what waits for its artifact.

pub(crate) mod holds;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass::{Act, PurgeWait, RetentionProgress, RetentionRule};

use crate::auth::Caller;
use crate::http::{App, Body, Problem, Query};

/// What is kept, and how far pruning has come. Definitions have a schema `Retention`, which is another.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RetentionReport)]
pub(crate) struct Retention {
    /// The tenant's own rules, which come before its definitions'.
    #[schema(value_type = Vec<RetentionRuleShown>)]
    rules: Vec<RetentionRule>,
    /// Every rule that concerns the tenant, with how far it has come.
    #[schema(value_type = Vec<RetentionProgressShown>)]
    progress: Vec<RetentionProgress>,
    /// Jobs past their retention whose artifact is to be removed first, longest waiting first, at most 500.
    #[schema(value_type = Vec<PurgeWaitShown>)]
    waits: Vec<PurgeWait>,
}

/// A rule of the tenant's own.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = RetentionRule)]
pub(crate) struct RetentionRuleShown {
    /// `*` for every definition
    definition_key: String,
    /// succeeded, failed, dead_letter, canceled or event
    status: String,
    /// null is for ever
    keep_seconds: Option<i64>,
}

/// How far one rule has come.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = RetentionProgress)]
pub(crate) struct RetentionProgressShown {
    /// None for a definition's own rule.
    tenant_id: Option<Uuid>,
    definition_key: String,
    status: String,
    keep_seconds: i64,
    /// Everything that ended before this instant has been looked at.
    #[schema(format = DateTime)]
    reached: Option<String>,
    /// How much of the time that is past retention is still to be looked at.
    behind_seconds: Option<i64>,
    /// Jobs deleted so far.
    purged: i64,
    #[schema(format = DateTime)]
    looked_at: Option<String>,
}

/// A job past its retention that waits until its artifact is removed.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = PurgeWait)]
pub(crate) struct PurgeWaitShown {
    job_id: Uuid,
    cleanup_job_id: Uuid,
    /// Of the job that removes it; dead_letter or failed needs somebody to look.
    cleanup_status: Option<String>,
    #[schema(format = DateTime)]
    since: String,
}

/// What is kept, and how far pruning has come
#[utoipa::path(get, path = "/api/v1/retention", tag = "retention", responses((status = 200, body = Retention)))]
pub(crate) async fn read(State(app): State<App>, caller: Caller) -> Result<Json<Retention>, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let rules = looking.retention().await?;
    let progress = looking.retention_progress().await?;
    let waits = looking.purge_waits().await?;
    looking.end().await?;
    Ok(Json(Retention { rules, progress, waits }))
}

/// A rule to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"definition_key": "sync-dropbox", "status": "succeeded", "keep_seconds": 604800}))]
pub(crate) struct RuleBody {
    /// Which definition's jobs; all of them, if left out.
    #[schema(min_length = 1, max_length = 200)]
    definition_key: Option<String>,
    status: KeptStatus,
    /// null keeps for ever
    #[serde(deserialize_with = "given")]
    #[schema(required, minimum = 0, maximum = 3_162_240_000_u64)]
    keep_seconds: Option<u64>,
}

/// What a rule is about: jobs that ended so, or events.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeptStatus {
    Succeeded,
    Failed,
    DeadLetter,
    Canceled,
    Event,
}

impl KeptStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
            Self::Canceled => "canceled",
            Self::Event => "event",
        }
    }
}

/// For ever is said, not left out: a rule that deletes nothing must not come about by forgetting a field.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(from)
}

/// Set a rule of the tenant's own
///
/// It comes before what the definitions say, and counts at once, also for what was passed over before.
#[utoipa::path(post, path = "/api/v1/retention/rules", tag = "retention", request_body = RuleBody,
    responses((status = 200, body = RetentionRuleShown)))]
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    body: Body<RuleBody>,
) -> Result<Json<RetentionRule>, Problem> {
    let RuleBody { definition_key, status, keep_seconds } = body.value;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let keep = keep_seconds.map(Duration::from_secs);
    let rule = acting.keep_by_name(definition_key.as_deref(), status.as_str(), keep).await?;
    acting.commit(&Act::new("retention.set", &rule.definition_key).after(&rule)).await?;
    Ok(Json(rule))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RuleQuery {
    /// Of which definition; the rule for all of them, if left out.
    #[param(min_length = 1, max_length = 200)]
    definition_key: Option<String>,
    #[param(inline)]
    status: KeptStatus,
}

/// Take a rule of the tenant's own away
///
/// What the definitions say holds again.
#[utoipa::path(delete, path = "/api/v1/retention/rules", tag = "retention", params(RuleQuery),
    responses((status = 204, description = "It is gone"), (status = 404, description = "The tenant has no such rule")))]
pub(crate) async fn clear(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<RuleQuery>,
) -> Result<StatusCode, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    acting.forget_rule(query.definition_key.as_deref(), query.status.as_str()).await?;
    let which = query.definition_key.as_deref().unwrap_or("*");
    acting.commit(&Act::new("retention.clear", which).before(&query.status.as_str())).await?;
    Ok(StatusCode::NO_CONTENT)
}
