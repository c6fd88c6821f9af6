//! The worker protocol: a pull worker claims jobs, renews their leases and settles them. Every call about a job has the fence of
//! its attempt; a late one gets 409 `lease-lost` and changes nothing.
//!
//! These calls are not in the audit trail: every attempt is in the history of its job, with the name of its worker.

mod bodies;

use std::pin::pin;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures_util::FutureExt as _;
use windlass::job::State as JobState;
use windlass::pull::{Claim, Held, PulledJobs, Puller};
use windlass::{Error, NewJob};

use crate::auth::Caller;
use crate::http::{
    Access, App, Body, DeferredResponse, Id, MAX_WAIT, PayloadBody, Problem, ProblemKind, Waits,
};
use bodies::{
    ClaimBody, ClaimedJobs, CompleteBody, FailBody, HeartbeatBody, HeartbeatResponse, JobStatus,
    RegisterBody, Registered, ReleaseBody, SnoozeBody, StopBody, Stopped,
};

/// Register a worker
///
/// Optional, because a claim registers its worker too. Adds metadata, and reuses the name of the worker after a restart.
#[utoipa::path(post, path = "/api/v1/worker/register", tag = "worker", request_body = RegisterBody,
    responses((status = 200, body = Registered)))]
pub(crate) async fn register(
    State(app): State<App>,
    caller: Caller,
    body: Body<RegisterBody>,
) -> Result<Json<Registered>, Problem> {
    let registered = app.pull().await?.register(&puller(&caller), &body.value.into()).await?;
    Ok(Json(Registered { worker_id: registered.worker_id, is_draining: registered.is_draining }))
}

/// Deregister a worker
///
/// For a worker that stops: it is listed as stopped immediately, not after a minute without calls. Changes nothing while a worker
/// of this name holds jobs. A later claim returns the worker to service.
#[utoipa::path(post, path = "/api/v1/worker/stop", tag = "worker", request_body = StopBody,
    responses((status = 200, body = Stopped)))]
pub(crate) async fn stop(
    State(app): State<App>,
    caller: Caller,
    body: Body<StopBody>,
) -> Result<Json<Stopped>, Problem> {
    let worker_id = body.value.worker_id.as_deref();
    Ok(Json(Stopped { is_stopped: app.pull().await?.sign_off(&puller(&caller), worker_id).await? }))
}

/// Claim jobs
///
/// Waits up to `wait_seconds` for the first job and returns at most `limit` jobs, or none. A credential of a tenant gets the jobs
/// of that tenant; one of the installation gets the jobs of all tenants in turn. If the credential is revoked while the claim
/// waits, the response is 401 or 403 and no job is claimed.
#[utoipa::path(post, path = "/api/v1/worker/jobs/claim", tag = "worker", request_body = ClaimBody,
    responses((status = 200, body = ClaimedJobs)))]
pub(crate) async fn claim(
    State(app): State<App>,
    caller: Caller,
    access: Access,
    body: Body<ClaimBody>,
) -> Result<DeferredResponse, Problem> {
    let (puller, claim) = (puller(&caller), body.value.read()?);
    Ok(DeferredResponse::new(wait(app, puller, claim, access)))
}

/// Waits for jobs as long as the caller has access.
async fn wait(
    app: App,
    puller: Puller,
    claim: Claim,
    mut access: Access,
) -> Result<Json<ClaimedJobs>, Problem> {
    let pull = app.pull().await?;
    let is_long_poll = !claim.wait.is_zero();
    let waits = access.waits();
    // Dropping jobs that are not delivered releases them.
    let (jobs, denied) = {
        let mut claiming = pin!(pull.claim(&puller, claim));
        let denied = pin!(until_denied(&mut access, waits.as_ref()));
        tokio::select! {
            // First, so that jobs that have arrived are delivered.
            biased;
            jobs = &mut claiming => (Some(jobs?), None),
            () = app.stopping().cancelled() => (None, None),
            // With the jobs that have arrived in this moment.
            problem = denied => (claiming.as_mut().now_or_never().and_then(Result::ok), Some(problem)),
        }
    };
    let has_jobs = jobs.as_ref().is_some_and(|jobs| !jobs.is_empty());
    let denied = match denied {
        None if is_long_poll && has_jobs => access.check().await.err(),
        denied => denied,
    };
    match (jobs, denied) {
        (jobs, None) => Ok(Json(ClaimedJobs { jobs: jobs.map(PulledJobs::deliver).unwrap_or_default() })),
        (None, Some(problem)) => Err(problem),
        (Some(jobs), Some(problem)) => {
            jobs.release().await;
            Err(problem)
        }
    }
}

/// Checks the caller from time to time until it has no access.
async fn until_denied(access: &mut Access, waits: Option<&Waits>) -> Problem {
    loop {
        tokio::time::sleep(waits.map_or(MAX_WAIT, Waits::pace)).await;
        if let Err(problem) = access.renew().await {
            return problem;
        }
    }
}

/// Send a heartbeat
///
/// Renews the lease of the job, records progress and log lines, and returns whether the job should stop.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/heartbeat", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = HeartbeatBody, responses((status = 200, body = HeartbeatResponse)))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<HeartbeatBody>,
) -> Result<Json<HeartbeatResponse>, Problem> {
    let (fence, beat) = body.value.read()?;
    let renewed = held(app.pull().await?.heartbeat(&puller(&caller), job, &fence, &beat).await?)?;
    Ok(Json(HeartbeatResponse {
        lease_expires_at: renewed.lease_expires_at.to_string(),
        lease_seconds: renewed.lease_seconds,
        cancel_requested: renewed.cancel_requested,
    }))
}

/// Complete a job
///
/// The result, the artifact and the jobs of `next` are written in one transaction. If the cancellation of the job was requested,
/// it ends as `canceled`.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/complete", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = CompleteBody, responses((status = 200, body = JobStatus)))]
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: PayloadBody<CompleteBody>,
) -> Result<Json<JobStatus>, Problem> {
    let (fence, done) = body.value.read();
    let result = app.pull().await?.complete(&puller(&caller), job, &fence, done).await;
    job_status(result.map_err(|error| match error {
        Error::UnknownDefinition { .. } | Error::InactiveDefinition { .. } => {
            Problem::invalid("/next", error.to_string())
        }
        error => not_ended(error),
    })?)
}

/// Fail an attempt
///
/// The job is retried with the backoff of the definition, or after `retry_after_seconds`, while attempts are left. It is not
/// retried if `retryable` is false.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/fail", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = FailBody, responses((status = 200, body = JobStatus)))]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<FailBody>,
) -> Result<Json<JobStatus>, Problem> {
    let (fence, failure) = body.value.read()?;
    let result = app.pull().await?.fail(&puller(&caller), job, &fence, failure).await;
    job_status(result.map_err(not_ended)?)
}

/// Snooze a job
///
/// The job runs again after `delay_seconds`; this does not count as a failure. Limited by `max_snoozes` of the definition and the
/// deadline of the job.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/snooze", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = SnoozeBody, responses((status = 200, body = JobStatus)))]
pub(crate) async fn snooze(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<SnoozeBody>,
) -> Result<Json<JobStatus>, Problem> {
    let delay = seconds("delay_seconds", body.value.delay_seconds)?;
    let result = app.pull().await?.snooze(&puller(&caller), job, &body.value.fence, delay).await;
    job_status(result.map_err(not_ended)?)
}

/// Release a job
///
/// Another worker can claim it immediately; this does not count as a failure.
#[utoipa::path(post, path = "/api/v1/worker/jobs/{job_id}/release", tag = "worker", params(("job_id" = Uuid, Path)),
    request_body = ReleaseBody, responses((status = 200, body = JobStatus)))]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    body: Body<ReleaseBody>,
) -> Result<Json<JobStatus>, Problem> {
    let result = app.pull().await?.release(&puller(&caller), job, &body.value.fence).await;
    job_status(result.map_err(not_ended)?)
}

/// The identity of the worker comes from the credential, never from the body.
fn puller(caller: &Caller) -> Puller {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    let name: String = caller.name().chars().take(150).map(|c| if is_plain(c) { c } else { '_' }).collect();
    let mut puller = Puller::new(name);
    puller.tenant = caller.tenant;
    puller
}

/// A worker repeats a call after 503, and not after the 409 of other locked objects: there it means a lost lease.
fn not_ended(error: Error) -> Problem {
    match error {
        Error::Locked { .. } => Problem::of(ProblemKind::Unavailable, error.to_string()).retry_after(2),
        error => error.into(),
    }
}

/// Returns the new status of the job if the lease was still held.
fn job_status(result: Held<JobState>) -> Result<Json<JobStatus>, Problem> {
    Ok(Json(JobStatus { status: held(result)?.to_string() }))
}

fn held<T>(result: Held<T>) -> Result<T, Problem> {
    let detail = "the attempt is no longer current: its lease expired, or it has ended";
    result.value().ok_or_else(|| Problem::of(ProblemKind::LeaseLost, detail))
}

fn seconds(field: &str, seconds: f64) -> Result<Duration, Problem> {
    let fits = (0.0..=NewJob::MAX_DELAY.as_secs_f64()).contains(&seconds);
    fits.then(|| Duration::from_secs_f64(seconds)).ok_or_else(|| {
        let most = NewJob::MAX_DELAY.as_secs();
        Problem::invalid(format!("/{field}"), format!("must be between 0 and {most} seconds (ten years)"))
    })
}
