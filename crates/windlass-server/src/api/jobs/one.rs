//! One job: reading it, its attempts, why it waits, and the verbs cancel and retry.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::{Act, Canceled};

use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Id, Problem, Query, page_limit};

/// Read a job
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}", tag = "jobs", params(("job_id" = uuid::Uuid, Path)), responses((status = 200, body = schema::Job)))]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<windlass::Job>, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let job = looking.job(caller.tenant(), id).await?;
    looking.end().await?;
    job.map(Json).ok_or_else(|| Problem::not_found("job"))
}

/// The attempts of a job, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempts {
    #[schema(value_type = Vec<schema::Attempt>)]
    attempts: Vec<windlass::Attempt>,
    /// For the next page; none after the last.
    next_cursor: Option<i32>,
}

/// Which attempts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AttemptsQuery {
    /// Attempts per page: 1000, if not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
    /// `next_cursor` of the page before.
    cursor: Option<i32>,
}

/// Read a job's attempts
///
/// A page ends after `limit` attempts or about 4 MiB, whichever comes first; `next_cursor` goes on from there.
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/attempts", tag = "jobs", params(("job_id" = uuid::Uuid, Path), AttemptsQuery), responses((status = 200, body = Attempts)))]
pub(crate) async fn attempts(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Query(query): Query<AttemptsQuery>,
) -> Result<Json<Attempts>, Problem> {
    let limit = page_limit(query.limit, 1000, 1000)?;
    let looking = app.queue().look(caller.reach()).await?;
    let is_there = looking.job(caller.tenant(), id).await?.is_some();
    let after = query.cursor.unwrap_or(0);
    let (attempts, has_more) = looking.attempts_after(caller.tenant(), id, after, limit).await?;
    looking.end().await?;
    if !is_there {
        return Err(Problem::not_found("job"));
    }
    let next_cursor = attempts.last().filter(|_| has_more).map(|attempt| attempt.attempt_no);
    Ok(Json(Attempts { attempts, next_cursor }))
}

/// Ask why a job is not running
///
/// The one reason that counts most, all of them, and what would change each.
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/why", tag = "jobs", params(("job_id" = uuid::Uuid, Path)), responses((status = 200, body = schema::Why)))]
pub(crate) async fn why(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<windlass::Why>, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let why = looking.why(id).await?;
    looking.end().await?;
    Ok(Json(why))
}

/// Cancel a job
///
/// One that waits is canceled now. One that runs is asked to stop and stays `running` until its worker answers.
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/cancel", tag = "jobs", params(("job_id" = uuid::Uuid, Path)),
    responses((status = 200, body = schema::Job), (status = 409, description = "It has ended already")))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<windlass::Job>, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let before = acting.job(id).await?.ok_or_else(|| Problem::not_found("job"))?;
    if acting.cancel(id).await? == Canceled::AlreadyFinished {
        let detail = format!("it has ended as {} already", before.status);
        return Err(Problem::of(crate::http::ProblemKind::Conflict, detail));
    }
    finish(acting, "job.cancel", &before).await
}

/// Run a finished job once more
#[utoipa::path(post, path = "/api/v1/jobs/{job_id}/retry", tag = "jobs", params(("job_id" = uuid::Uuid, Path)),
    responses((status = 200, body = schema::Job), (status = 409, description = "It has not ended, or another job holds its dedupe key")))]
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<windlass::Job>, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let before = acting.job(id).await?.ok_or_else(|| Problem::not_found("job"))?;
    acting.retry(id).await?;
    finish(acting, "job.retry", &before).await
}

/// Writes down what changed, and answers the job as it is now.
async fn finish(
    acting: windlass::Acting,
    action: &'static str,
    before: &windlass::Job,
) -> Result<Json<windlass::Job>, Problem> {
    let after = acting.job(before.id).await?.ok_or_else(|| Problem::not_found("job"))?;
    let shown = |job: &windlass::Job| serde_json::json!({"status": job.status, "cancel_requested_at": job.cancel_requested_at});
    acting.commit(&Act::new(action, before.id).before(&shown(before)).after(&shown(&after))).await?;
    Ok(Json(after))
}
