//! Retention: the rules of a tenant, the progress of deletion, and jobs whose artifacts must be deleted first.

pub(crate) mod holds;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass::retention::{PurgeWait, RetentionProgress, RetentionRule};

use crate::auth::Caller;
use crate::http::{App, Body, Problem, Query};

/// The retention rules and the progress of deletion.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetentionReport {
    /// The rules of the tenant, which take precedence over those of the definitions.
    #[schema(value_type = Vec<RetentionRuleShown>)]
    rules: Vec<RetentionRule>,
    /// The progress of every rule that applies to the tenant.
    #[schema(value_type = Vec<RetentionProgressShown>)]
    progress: Vec<RetentionProgress>,
    /// Expired jobs whose artifact must be deleted first, oldest first, at most 500.
    #[schema(value_type = Vec<PurgeWaitShown>)]
    waits: Vec<PurgeWait>,
}

/// A retention rule of the tenant.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = RetentionRule)]
pub(crate) struct RetentionRuleShown {
    /// `*` for every definition
    definition_key: String,
    /// succeeded, failed, dead_letter, canceled or event
    status: String,
    /// null means forever
    keep_seconds: Option<i64>,
}

/// The progress of one rule.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = RetentionProgress)]
pub(crate) struct RetentionProgressShown {
    /// Null for the rule of a definition.
    tenant_id: Option<Uuid>,
    definition_key: String,
    status: String,
    keep_seconds: i64,
    /// Everything that ended before this instant has been checked.
    #[schema(format = DateTime)]
    reached: Option<String>,
    /// How long ago the first due job that nothing holds back should have been deleted, in seconds.
    behind_seconds: Option<i64>,
    /// Jobs deleted so far. Null for the rule of a definition, which applies to all tenants, unless a super-admin reads it.
    purged: Option<i64>,
    #[schema(format = DateTime)]
    checked_at: Option<String>,
    /// Jobs past their period that still exist.
    due: i64,
    /// There may be more due jobs than that: only the oldest ones were counted.
    is_due_partial: bool,
    /// Why some of the due jobs still exist, with their number.
    held_back: Vec<String>,
}

/// An expired job that waits until its artifact is deleted.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = PurgeWait)]
pub(crate) struct PurgeWaitShown {
    job_id: Uuid,
    cleanup_job_id: Uuid,
    /// The status of the job that deletes the artifact; dead_letter and failed need attention.
    cleanup_status: Option<String>,
    #[schema(format = DateTime)]
    since: String,
}

/// Read retention rules and their progress
#[utoipa::path(get, path = "/api/v1/retention", tag = "retention", responses((status = 200, body = RetentionReport)))]
pub(crate) async fn read(State(app): State<App>, caller: Caller) -> Result<Json<RetentionReport>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let rules = reading.retention().await?;
    let progress = reading.retention_progress().await?;
    let waits = reading.purge_waits().await?;
    reading.end().await?;
    Ok(Json(RetentionReport { rules, progress, waits }))
}

/// A new rule.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"definition_key": "sync-dropbox", "status": "succeeded", "keep_seconds": 604800}))]
pub(crate) struct RuleBody {
    /// The definition (default: all).
    #[schema(min_length = 1, max_length = 200)]
    definition_key: Option<String>,
    status: KeptStatus,
    /// null keeps forever
    #[serde(deserialize_with = "given")]
    #[schema(required, minimum = 0, maximum = 3_162_240_000_u64)]
    keep_seconds: Option<u64>,
}

/// The status of the jobs, or events.
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

/// Null must be given explicitly: omitting a field by mistake must not create a rule that keeps data forever.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(from)
}

/// Set a retention rule of the tenant
///
/// It takes precedence over the rules of the definitions, and applies immediately, also to jobs that were already checked.
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
    let rule = acting.set_retention_by_name(definition_key.as_deref(), status.as_str(), keep).await?;
    acting.commit().await?;
    Ok(Json(rule))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RuleQuery {
    /// The definition (default: the rule for all).
    #[param(min_length = 1, max_length = 200)]
    definition_key: Option<String>,
    #[param(inline)]
    status: KeptStatus,
}

/// Remove a retention rule of the tenant
///
/// The rules of the definitions apply again.
#[utoipa::path(delete, path = "/api/v1/retention/rules", tag = "retention", params(RuleQuery),
    responses((status = 204, description = "Removed"), (status = 404, description = "Rule not found")))]
pub(crate) async fn clear(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<RuleQuery>,
) -> Result<StatusCode, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    acting.clear_retention(query.definition_key.as_deref(), query.status.as_str()).await?;
    acting.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
