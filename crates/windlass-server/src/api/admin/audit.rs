//! The audit trail: of the tenant, or of everyone for a super-admin that names no tenant.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::{AuditEntry, AuditQuery};

use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Problem, Query, page_limit};

/// Which rows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    actor: Option<String>,
    #[param(example = "job.cancel")]
    action: Option<String>,
    target: Option<String>,
    #[param(inline)]
    outcome: Option<Outcome>,
    /// `next_cursor` of the page before.
    cursor: Option<i64>,
    /// Rows per page: 100, if not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    Denied,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    #[schema(value_type = Vec<schema::AuditEntry>)]
    entries: Vec<AuditEntry>,
    next_cursor: Option<i64>,
}

/// Read the audit trail
#[utoipa::path(get, path = "/api/v1/admin/audit", tag = "audit", params(AuditParams), responses((status = 200, body = AuditPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditParams>,
) -> Result<Json<AuditPage>, Problem> {
    let limit = page_limit(query.limit, 100, 1000)?;
    let wanted = AuditQuery {
        actor: query.actor,
        action: query.action,
        target: query.target,
        outcome: query.outcome.map(|outcome| match outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Denied => "denied".to_owned(),
        }),
        before: query.cursor,
        limit,
    };
    let looking = app.queue().look(caller.wide_reach()).await?;
    let entries = looking.audit(&wanted).await?;
    looking.end().await?;
    let is_full = entries.len() == usize::from(limit);
    let next_cursor = entries.last().filter(|_| is_full).map(|entry| entry.id);
    Ok(Json(AuditPage { entries, next_cursor }))
}
