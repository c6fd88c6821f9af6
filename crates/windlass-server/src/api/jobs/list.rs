//! Lists of jobs, and the summary.

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
    jobs: Vec<windlass::job::Job>,
    /// The cursor of the next page; null on the last page. A search may return fewer jobs than the limit, or none, and still have one.
    next_cursor: Option<Uuid>,
    /// With `q`: the number of jobs that this request searched, starting at the newest or at the cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched: Option<usize>,
}

/// List jobs, newest first
///
/// A page ends after `limit` jobs or about 4 MiB, whichever comes first; `next_cursor` continues there.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(ListQuery), responses((status = 200, body = JobPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<JobPage>, Problem> {
    let filter = query.filter(&caller)?;
    let page = if filter.is_search() {
        let _permit = app.searches().permit(caller.tenant()).await?;
        app.queue().search(caller.reach(), &filter).await?
    } else {
        let reading = app.queue().read(caller.reach()).await?;
        let page = reading.list(&filter).await?;
        reading.end().await?;
        page
    };
    Ok(Json(JobPage { jobs: page.jobs, next_cursor: page.next, searched: page.searched }))
}

/// Count the jobs of the tenant
///
/// Returns counts by status and the age of the oldest queued job. They come from counters, so the cost does not depend on the
/// number of jobs.
#[utoipa::path(get, path = "/api/v1/jobs/summary", tag = "jobs", responses((status = 200, body = schema::TenantSummary)))]
pub(crate) async fn summary(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<serde_json::Value>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let overview = reading.overview().await?;
    reading.end().await?;
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
