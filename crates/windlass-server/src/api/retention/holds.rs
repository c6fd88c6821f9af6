//! Legal holds: protect jobs from deletion, by retention or by request.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::retention::{HoldOn, LegalHold};

use crate::auth::Caller;
use crate::http::{App, Body, Id, IdempotencyKey, Problem, replay, store_response};

/// A new hold: on one job, on the jobs of a subject, or, without either, on all data of the tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"subject_type": "user", "subject_id": "7", "reason": "case 12"}))]
pub(crate) struct HoldBody {
    job_id: Option<Uuid>,
    #[schema(min_length = 1, max_length = 500)]
    subject_type: Option<String>,
    #[schema(min_length = 1, max_length = 500)]
    subject_id: Option<String>,
    /// The reason for the hold.
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// A legal hold.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the value is the library's own")]
#[schema(as = LegalHold)]
pub(crate) struct HoldShown {
    id: Uuid,
    job_id: Option<Uuid>,
    subject_type: Option<String>,
    subject_id: Option<String>,
    reason: String,
    created_by: String,
    #[schema(format = DateTime)]
    created_at: String,
}

/// The holds of the tenant, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Holds {
    #[schema(value_type = Vec<HoldShown>)]
    holds: Vec<LegalHold>,
}

/// List legal holds
#[utoipa::path(get, path = "/api/v1/retention/holds", tag = "retention", responses((status = 200, body = Holds)))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Holds>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let holds = reading.holds().await?;
    reading.end().await?;
    Ok(Json(Holds { holds }))
}

/// Place a legal hold
///
/// Until the hold is released, retention skips the held jobs, and requests to delete them are rejected.
#[utoipa::path(post, path = "/api/v1/retention/holds", tag = "retention", request_body = HoldBody,
    responses((status = 201, body = HoldShown)))]
pub(crate) async fn place(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<HoldBody>,
) -> Result<Response, Problem> {
    let HoldBody { job_id, subject_type, subject_id, reason } = body.value;
    let what = match (job_id, subject_type, subject_id) {
        (Some(job), None, None) => HoldOn::Job(job),
        (None, Some(kind), Some(id)) => HoldOn::Subject { kind, id },
        (None, None, None) => HoldOn::Tenant,
        (None, Some(_), None) => {
            return Err(Problem::invalid("/subject_id", "is required with subject_type"));
        }
        (None, None, Some(_)) => {
            return Err(Problem::invalid("/subject_type", "is required with subject_id"));
        }
        (Some(_), _, _) => return Err(Problem::invalid("/job_id", "cannot be combined with a subject")),
    };
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let hold = acting.hold(&what, &reason).await?;
    store_response(&acting, &key, StatusCode::CREATED, &json!(hold)).await?;
    acting.commit().await?;
    Ok((StatusCode::CREATED, Json(hold)).into_response())
}

/// Release a legal hold
///
/// The retention rules apply again.
#[utoipa::path(delete, path = "/api/v1/retention/holds/{hold_id}", tag = "retention", params(("hold_id" = Uuid, Path)),
    responses((status = 200, body = HoldShown)))]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<LegalHold>, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let released = acting.release(id).await?;
    acting.commit().await?;
    Ok(Json(released))
}
