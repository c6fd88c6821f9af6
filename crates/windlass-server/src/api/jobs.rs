//! A tenant's jobs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::Filter;

use crate::auth::Caller;
use crate::http::{App, Problem, Query};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Jobs per page.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
}

/// A page of jobs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage {
    #[schema(value_type = Vec<Object>)]
    jobs: Vec<windlass::Job>,
    next_cursor: Option<String>,
}

/// List jobs, newest first
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(ListQuery), responses((status = 200, body = JobPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<JobPage>, Problem> {
    let filter = Filter::new(caller.tenant()).limit(query.limit.unwrap_or(100));
    let looking = app.queue().look(caller.reach()).await?;
    let page = looking.list(&filter).await?;
    looking.end().await?;
    Ok(Json(JobPage { jobs: page.jobs, next_cursor: page.next.map(|id| id.to_string()) }))
}
