//! One job: reading it, its attempts, why it is waiting, and the actions cancel and retry.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use windlass::job::Canceled;

use crate::api::schema;
use crate::auth::{Caller, Permission};
use crate::http::{App, Id, Problem, Query, page_limit};

/// Read a job
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}", tag = "jobs", params(("job_id" = uuid::Uuid, Path)), responses((status = 200, body = schema::Job)))]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<windlass::job::Job>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let job = reading.job(caller.tenant(), id).await?;
    reading.end().await?;
    job.map(Json).ok_or_else(|| Problem::not_found("job"))
}

/// The attempts of a job, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempts {
    #[schema(value_type = Vec<schema::Attempt>)]
    attempts: Vec<windlass::job::Attempt>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<i32>,
}

/// The page of the attempts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AttemptsQuery {
    /// The maximum number of attempts (default 1000).
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
    /// The `next_cursor` of the previous page.
    cursor: Option<i32>,
}

/// List the attempts of a job
///
/// A page ends after `limit` attempts or about 4 MiB, whichever comes first; `next_cursor` continues there.
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/attempts", tag = "jobs", params(("job_id" = uuid::Uuid, Path), AttemptsQuery), responses((status = 200, body = Attempts)))]
pub(crate) async fn attempts(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Query(query): Query<AttemptsQuery>,
) -> Result<Json<Attempts>, Problem> {
    let limit = page_limit(query.limit, 1000, 1000)?;
    let reading = app.queue().read(caller.reach()).await?;
    let is_there = reading.job(caller.tenant(), id).await?.is_some();
    let after = query.cursor.unwrap_or(0);
    let (attempts, has_more) = reading.attempts_after(caller.tenant(), id, after, limit).await?;
    reading.end().await?;
    if !is_there {
        return Err(Problem::not_found("job"));
    }
    let next_cursor = attempts.last().filter(|_| has_more).map(|attempt| attempt.attempt_no);
    Ok(Json(Attempts { attempts, next_cursor }))
}

/// Explain why a job is not running
///
/// Returns the main reason, all reasons, and a remedy for each.
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/why", tag = "jobs", params(("job_id" = uuid::Uuid, Path)), responses((status = 200, body = schema::Why)))]
pub(crate) async fn why(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<windlass::job::Why>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let why = reading.why(id).await?;
    reading.end().await?;
    Ok(Json(why))
}

/// Cancel a job
///
/// A waiting job is canceled immediately. A running job receives a cancel request and stays `running` until its worker ends it.
/// A credential without `jobs:read` receives only the job's id and status.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/cancel", tag = "jobs", params(("job_id" = uuid::Uuid, Path)),
    responses((status = 200, body = schema::ChangedJob), (status = 409, description = "The job has already ended")))]
pub(crate) async fn cancel(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let before = acting.job(id).await?.ok_or_else(|| Problem::not_found("job"))?;
    if acting.cancel(id).await? == Canceled::AlreadyFinished {
        let detail = format!("the job has already ended with status {}", before.status);
        return Err(Problem::of(crate::http::ProblemKind::Conflict, detail));
    }
    finish(acting, &caller, id).await
}

/// Retry a finished job
///
/// The job is `queued`, `blocked`, or `canceled` again if one of its dependencies has not succeeded in the meantime.
/// A credential without `jobs:read` receives only the job's id and status.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/retry", tag = "jobs", params(("job_id" = uuid::Uuid, Path)),
    responses((status = 200, body = schema::ChangedJob), (status = 409, description = "The job has not ended, its deadline has passed, or another job holds its dedupe key")))]
pub(crate) async fn retry(State(app): State<App>, caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    acting.job(id).await?.ok_or_else(|| Problem::not_found("job"))?;
    acting.retry(id).await?;
    finish(acting, &caller, id).await
}

/// Returns what the caller may read of the job after the change.
async fn finish(
    acting: windlass::admin::Acting,
    caller: &Caller,
    id: uuid::Uuid,
) -> Result<Response, Problem> {
    let after = acting.job(id).await?.ok_or_else(|| Problem::not_found("job"))?;
    acting.commit().await?;
    Ok(if caller.may(Permission::ReadJobs) {
        Json(after).into_response()
    } else {
        Json(json!({"id": after.id, "status": after.status})).into_response()
    })
}
