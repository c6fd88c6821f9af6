//! Queues, workers, limits, and the summary across tenants.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::admin::{Tenant, WorkerRecord};

use super::tenants::LimitsChange;
use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Body, Id, PageQuery, Problem, Query, Segment};

/// A queue and its job counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queue {
    #[schema(example = "default")]
    name: String,
    is_paused: bool,
    #[schema(value_type = schema::Summary)]
    summary: windlass::admin::Summary,
}

/// Every queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List queues
#[utoipa::path(get, path = "/api/v1/admin/queues", tag = "operations", params(PageQuery), responses((status = 200, body = Queues)))]
pub(crate) async fn queues(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Queues>, Problem> {
    let reading = app.queue().read(caller.global_reach()).await?;
    let names = reading.queues().await?;
    let mut overview = reading.overview().await?;
    reading.end().await?;
    let queues: Vec<Queue> = names
        .into_iter()
        .map(|(name, is_paused)| {
            let summary = overview.queues.remove(&name).unwrap_or_default();
            Queue { name, is_paused, summary }
        })
        .collect();
    let (queues, next_cursor) = page.of(queues, |queue| queue.name.clone())?;
    Ok(Json(Queues { queues, next_cursor }))
}

/// A queue that was paused or resumed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueState {
    name: String,
    is_paused: bool,
}

/// Pause a queue
///
/// Within about a second, workers start no more jobs of the queue; running jobs continue.
#[utoipa::path(post, path = "/api/v1/admin/queues/{queue}/pause", tag = "operations", params(("queue" = String, Path)), responses((status = 200, body = QueueState)))]
pub(crate) async fn pause(
    app: State<App>,
    caller: Caller,
    name: Segment,
) -> Result<Json<QueueState>, Problem> {
    set_paused(app, caller, name, true).await
}

/// Resume a queue
#[utoipa::path(post, path = "/api/v1/admin/queues/{queue}/resume", tag = "operations", params(("queue" = String, Path)), responses((status = 200, body = QueueState)))]
pub(crate) async fn resume(
    app: State<App>,
    caller: Caller,
    name: Segment,
) -> Result<Json<QueueState>, Problem> {
    set_paused(app, caller, name, false).await
}

async fn set_paused(
    State(app): State<App>,
    caller: Caller,
    Segment(name): Segment,
    is_paused: bool,
) -> Result<Json<QueueState>, Problem> {
    let mut letters = name.bytes();
    let is_name = letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && letters.all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
        && name.len() <= 100;
    if !is_name {
        return Err(Problem::not_found("queue"));
    }
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    acting.set_paused(&name, is_paused).await?;
    acting.commit().await?;
    Ok(Json(QueueState { name, is_paused }))
}

/// All live workers, and those that stopped within the last day.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Workers {
    #[schema(value_type = Vec<schema::Worker>)]
    workers: Vec<WorkerRecord>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List workers
#[utoipa::path(get, path = "/api/v1/admin/workers", tag = "operations", params(PageQuery), responses((status = 200, body = Workers)))]
pub(crate) async fn workers(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Workers>, Problem> {
    let reading = app.queue().read(caller.global_reach()).await?;
    let workers = reading.workers().await?;
    reading.end().await?;
    let (workers, next_cursor) = page.of(workers, |worker| worker.worker_id.clone())?;
    Ok(Json(Workers { workers, next_cursor }))
}

/// A worker that was drained or resumed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerState {
    worker_id: String,
    is_draining: bool,
}

/// Drain a worker
///
/// It starts no more jobs and finishes the running ones. It is notified with its next heartbeat.
#[utoipa::path(post, path = "/api/v1/admin/workers/{worker_id}/drain", tag = "operations", params(("worker_id" = String, Path)), responses((status = 200, body = WorkerState)))]
pub(crate) async fn drain_worker(
    app: State<App>,
    caller: Caller,
    id: Segment,
) -> Result<Json<WorkerState>, Problem> {
    set_draining(app, caller, id, true).await
}

/// Resume a drained worker
#[utoipa::path(post, path = "/api/v1/admin/workers/{worker_id}/resume", tag = "operations", params(("worker_id" = String, Path)), responses((status = 200, body = WorkerState)))]
pub(crate) async fn resume_worker(
    app: State<App>,
    caller: Caller,
    id: Segment,
) -> Result<Json<WorkerState>, Problem> {
    set_draining(app, caller, id, false).await
}

async fn set_draining(
    State(app): State<App>,
    caller: Caller,
    Segment(worker_id): Segment,
    is_draining: bool,
) -> Result<Json<WorkerState>, Problem> {
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    acting.set_draining(&worker_id, is_draining).await?;
    acting.commit().await?;
    Ok(Json(WorkerState { worker_id, is_draining }))
}

/// The limits of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantLimits {
    tenant_id: Uuid,
    slug: String,
    /// The maximum number of unfinished jobs; null for no limit.
    max_queued: Option<i64>,
    /// The maximum number of jobs that run at the same time; null for no limit.
    max_running: Option<i32>,
    requests_per_minute: Option<i32>,
    /// The maximum number of lanes: combinations of definition, queue and priority.
    max_lanes: i32,
    /// The maximum number of queue names.
    max_queue_names: i32,
    /// The maximum number of triggers.
    max_triggers: i32,
}

/// The default limits, and those of each tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Limits {
    max_body_bytes: usize,
    requests_per_minute_of_a_credential: u32,
    request_timeout_seconds: u64,
    tenants: Vec<TenantLimits>,
    /// The cursor of the next page of tenants; null on the last page.
    next_cursor: Option<String>,
}

/// List limits
#[utoipa::path(get, path = "/api/v1/admin/limits", tag = "operations", params(PageQuery), responses((status = 200, body = Limits)))]
pub(crate) async fn limits(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Limits>, Problem> {
    let reading = app.queue().read(caller.global_reach()).await?;
    let tenants = reading.tenants().await?;
    reading.end().await?;
    let (tenants, next_cursor) = page.of(tenants, |tenant| tenant.slug.clone())?;
    let options = app.options();
    Ok(Json(Limits {
        max_body_bytes: options.max_body_bytes,
        requests_per_minute_of_a_credential: options.requests_per_minute,
        request_timeout_seconds: options.request_timeout.as_secs(),
        tenants: tenants
            .into_iter()
            .map(|tenant| TenantLimits {
                tenant_id: tenant.id,
                slug: tenant.slug,
                max_queued: tenant.max_queued,
                max_running: tenant.max_running,
                requests_per_minute: tenant.requests_per_minute,
                max_lanes: tenant.max_lanes,
                max_queue_names: tenant.max_queue_names,
                max_triggers: tenant.max_triggers,
            })
            .collect(),
        next_cursor,
    }))
}

/// Change the limits of a tenant
#[utoipa::path(patch, path = "/api/v1/admin/limits/{tenant_id}", tag = "operations", params(("tenant_id" = Uuid, Path)), request_body = LimitsChange, responses((status = 200, body = schema::Tenant)))]
pub(crate) async fn change_limits(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    body: Body<LimitsChange>,
) -> Result<Json<Tenant>, Problem> {
    let fields = body.value.checked()?;
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    let changed = acting.change_tenant(id, &fields).await?;
    acting.commit().await?;
    Ok(Json(changed))
}

/// Count the jobs of all tenants
#[utoipa::path(get, path = "/api/v1/admin/summary", tag = "operations", responses((status = 200, body = schema::Overview)))]
pub(crate) async fn summary(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<windlass::admin::Overview>, Problem> {
    let reading = app.queue().read(caller.global_reach()).await?;
    let overview = reading.overview().await?;
    reading.end().await?;
    Ok(Json(overview))
}
