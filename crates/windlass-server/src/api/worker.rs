//! The worker protocol: anybody's own process takes jobs, keeps them and ends them. Every call about a job carries the fence
//! that came with it; one that comes too late is answered with 409 `lease_lost` and changes nothing.
//!
//! These calls leave no rows in the audit trail: every attempt is in the job's own history, with its worker's name.

mod bodies;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use windlass::{Error, Held, Puller, State as JobState};

use crate::auth::Caller;
use crate::http::{App, Body, Id, Problem, ProblemKind};
use bodies::{
    ClaimBody, ClaimedJobs, CompleteBody, FailBody, HeartbeatAnswer, HeartbeatBody, NowIs, RegisterBody,
    Registered, ReleaseBody, SnoozeBody,
};

/// Introduce a worker
///
/// Optional: a claim makes its worker known too. Says more of it, and takes its name up again after a restart.
#[utoipa::path(post, path = "/api/v1/worker/register", tag = "worker", request_body = RegisterBody,
    responses((status = 200, body = Registered)))]
pub(crate) async fn register(
    State(app): State<App>,
    caller: Caller,
    body: Body<RegisterBody>,
) -> Result<Json<Registered>, Problem> {
    let registered = app.pull().await?.register(&puller(&caller), &body.value.into()).await?;
    Ok(Json(Registered { worker_id: registered.worker_id, is_quiet: registered.is_quiet }))
}

/// Take jobs
///
/// Waits up to `wait_seconds` for the first one and answers with at most `limit`, or with none. A credential of a tenant is
/// given that tenant's jobs; one of the installation is given every tenant's in turn.
#[utoipa::path(post, path = "/api/v1/worker/jobs/claim", tag = "worker", request_body = ClaimBody,
    responses((status = 200, body = ClaimedJobs)))]
pub(crate) async fn claim(
    State(app): State<App>,
    caller: Caller,
    body: Body<ClaimBody>,
) -> Result<Json<ClaimedJobs>, Problem> {
    let (puller, claim) = (puller(&caller), body.value.read()?);
    let jobs = tokio::select! {
        jobs = app.pull().await?.claim(&puller, claim) => jobs?,
        // Dropping the claim gives back whatever was on its way.
        () = app.stopping().cancelled() => Vec::new(),
    };
    Ok(Json(ClaimedJobs { jobs }))
}

/// Keep a job
///
/// Renews the job's lease, carries progress and log lines, and answers whether the job should stop.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/heartbeat", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = HeartbeatBody, responses((status = 200, body = HeartbeatAnswer)))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<HeartbeatBody>,
) -> Result<Json<HeartbeatAnswer>, Problem> {
    let (fence, beat) = body.value.read()?;
    let beaten = held(app.pull().await?.heartbeat(&puller(&caller), job, &fence, &beat).await?)?;
    Ok(Json(HeartbeatAnswer {
        lease_expires_at: beaten.lease_expires_at.to_string(),
        lease_seconds: beaten.lease_seconds,
        cancel_requested: beaten.cancel_requested,
    }))
}

/// End a job with success
///
/// The result, the artifact and the jobs of `next` are written with it, or none of them is. If the job was asked to stop in
/// the meantime it ends as `canceled`.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/complete", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = CompleteBody, responses((status = 200, body = NowIs)))]
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<CompleteBody>,
) -> Result<Json<NowIs>, Problem> {
    let (fence, done) = body.value.read();
    let answer = app.pull().await?.complete(&puller(&caller), job, &fence, done).await;
    now_is(answer.map_err(|error| match error {
        Error::UnknownDefinition { .. } | Error::InactiveDefinition { .. } => {
            Problem::invalid("/next", error.to_string())
        }
        error => error.into(),
    })?)
}

/// End an attempt with failure
///
/// Tried again as the definition says, or after `retry_after_seconds`, while attempts are left; never again if it is not
/// `retryable`.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/fail", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = FailBody, responses((status = 200, body = NowIs)))]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<FailBody>,
) -> Result<Json<NowIs>, Problem> {
    let (fence, failure) = body.value.read()?;
    now_is(app.pull().await?.fail(&puller(&caller), job, &fence, failure).await?)
}

/// Put a job off
///
/// It is run again after `delay_seconds`, uncharged; the definition's `max_snoozes` and the job's deadline bound it.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/snooze", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = SnoozeBody, responses((status = 200, body = NowIs)))]
pub(crate) async fn snooze(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<SnoozeBody>,
) -> Result<Json<NowIs>, Problem> {
    let delay = seconds("delay_seconds", body.value.delay_seconds)?;
    now_is(app.pull().await?.snooze(&puller(&caller), job, &body.value.fence, delay).await?)
}

/// Give a job back
///
/// Uncharged; another worker takes it at once.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/release", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = ReleaseBody, responses((status = 200, body = NowIs)))]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<ReleaseBody>,
) -> Result<Json<NowIs>, Problem> {
    now_is(app.pull().await?.release(&puller(&caller), job, &body.value.fence).await?)
}

/// Whose word it is: what the credential says, never the body.
fn puller(caller: &Caller) -> Puller {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    let name = caller.name().chars().take(150).map(|c| if is_plain(c) { c } else { '_' }).collect();
    Puller { tenant: caller.tenant, name }
}

/// What became of the job, for whoever still held it.
fn now_is(answer: Held<JobState>) -> Result<Json<NowIs>, Problem> {
    Ok(Json(NowIs { status: held(answer)?.to_string() }))
}

fn held<T>(answer: Held<T>) -> Result<T, Problem> {
    match answer {
        Held::Held(value) => Ok(value),
        Held::LeaseLost => {
            let detail = "this attempt is not yours any more: its lease ran out, or it has ended";
            Err(Problem::of(ProblemKind::LeaseLost, detail))
        }
    }
}

fn seconds(field: &str, seconds: f64) -> Result<Duration, Problem> {
    // Ten years, as for every delay.
    const MOST: f64 = 315_360_000.0;
    let fits = (0.0..=MOST).contains(&seconds);
    fits.then(|| Duration::from_secs_f64(seconds)).ok_or_else(|| {
        Problem::invalid(format!("/{field}"), "must be seconds, not negative and at most ten years")
    })
}
