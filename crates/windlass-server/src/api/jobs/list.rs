//! Reading many: lists and the summary.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::filter::ListQuery;
use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Problem, Query};

/// A page of jobs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage {
    #[schema(value_type = Vec<schema::Job>)]
    jobs: Vec<windlass::Job>,
    /// For the next page; none after the last.
    next_cursor: Option<Uuid>,
}

/// List jobs, newest first
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(ListQuery), responses((status = 200, body = JobPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<JobPage>, Problem> {
    let filter = query.filter(&caller)?;
    let looking = app.queue().look(caller.reach()).await?;
    let page = looking.list(&filter).await?;
    looking.end().await?;
    Ok(Json(JobPage { jobs: page.jobs, next_cursor: page.next }))
}

/// How the tenant's jobs stand
///
/// Counts by status and the age of the oldest queued job, from counters: it costs the same at any number of jobs.
#[utoipa::path(get, path = "/api/v1/jobs/summary", tag = "jobs", responses((status = 200, body = schema::TenantSummary)))]
pub(crate) async fn summary(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<serde_json::Value>, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let overview = looking.overview().await?;
    looking.end().await?;
    let all = overview.all;
    Ok(Json(serde_json::json!({
        "tenant_id": caller.tenant(),
        "counts": {
            "scheduled": all.scheduled, "blocked": all.blocked, "queued": all.queued, "running": all.running,
            "succeeded": all.succeeded, "failed": all.failed, "dead_letter": all.dead_letter, "canceled": all.canceled,
        },
        "running": all.running,
        "oldest_queued_age_seconds": all.oldest_queued_age_seconds,
        "queues": overview.queues,
        "definitions": overview.definitions,
    })))
}
