//! One job: reading it, its attempts, why it waits, and the verbs cancel and retry.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Act, Canceled};

use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Id, Problem};

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
}

/// Read a job's attempts
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/attempts", tag = "jobs", params(("job_id" = uuid::Uuid, Path)), responses((status = 200, body = Attempts)))]
pub(crate) async fn attempts(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<Attempts>, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let is_there = looking.job(caller.tenant(), id).await?.is_some();
    let attempts = looking.attempts(caller.tenant(), id).await?;
    looking.end().await?;
    if is_there { Ok(Json(Attempts { attempts })) } else { Err(Problem::not_found("job")) }
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
