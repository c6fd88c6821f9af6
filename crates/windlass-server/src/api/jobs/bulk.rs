//! Actions on many jobs: by ids or by a filter, optionally as a dry run. One call is one transaction with one audit entry, so it
//! changes at most a thousand jobs and reports if there are more.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::admin::BulkCursor;
use windlass::job::Filter;

use super::filter::{FilterBody, given};
use crate::auth::Caller;
use crate::http::{App, Body, Problem, object};

/// The jobs, and whether it is a dry run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    /// The ids of the jobs. Specify either `ids` or `filter`.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, max_items = 1000)]
    ids: Option<Vec<Uuid>>,
    /// The conditions. An empty filter matches every job.
    #[serde(default, deserialize_with = "object")]
    filter: Option<FilterBody>,
    /// The `next_cursor` of the previous call with this filter.
    cursor: Option<String>,
    /// Only report the matching jobs; change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// The result of an action on many jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkResponse {
    dry_run: bool,
    /// The number of matching jobs, up to a thousand.
    matched: usize,
    /// The number of changed jobs.
    changed: usize,
    /// More jobs match than one call can change: call again with `next_cursor`.
    has_more: bool,
    /// Pass it as `cursor` to continue. A job is then processed once, even if it still matches: a running job with a cancel
    /// request, or a job that could not be retried.
    next_cursor: Option<String>,
    results: Vec<BulkResult>,
}

/// The result for one job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkResult {
    id: Uuid,
    /// `canceled`, `requested`, `queued`, `blocked`, `deleted`; or, unchanged, `finished`, `not_finished`,
    /// `past_deadline`, `duplicate`, `missing`, `matched` (dry run).
    #[schema(example = "canceled")]
    outcome: String,
}

#[derive(Clone, Copy)]
enum BulkVerb {
    Cancel,
    Retry,
    Delete,
}

/// Cancel many jobs
#[utoipa::path(post, path = "/api/v1/jobs/cancel", tag = "jobs", request_body = BulkBody, responses((status = 200, body = BulkResponse)))]
pub(crate) async fn cancel(
    app: State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkResponse>, Problem> {
    run(BulkVerb::Cancel, app, caller, body).await
}

/// Retry many finished jobs
#[utoipa::path(post, path = "/api/v1/jobs/retry", tag = "jobs", request_body = BulkBody, responses((status = 200, body = BulkResponse)))]
pub(crate) async fn retry(
    app: State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkResponse>, Problem> {
    run(BulkVerb::Retry, app, caller, body).await
}

/// Delete many jobs
///
/// Deletes jobs in any state with their history. A running attempt loses its lease.
#[utoipa::path(post, path = "/api/v1/jobs/delete", tag = "jobs", request_body = BulkBody, responses((status = 200, body = BulkResponse)))]
pub(crate) async fn delete(
    app: State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkResponse>, Problem> {
    run(BulkVerb::Delete, app, caller, body).await
}

async fn run(
    verb: BulkVerb,
    State(app): State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkResponse>, Problem> {
    let from = match &body.value.cursor {
        Some(text) => {
            let invalid = |_| Problem::invalid("/cursor", "must be the next_cursor of the previous call");
            Some(text.parse::<BulkCursor>().map_err(invalid)?)
        }
        None => None,
    };
    let (filter, named) = which(body.value.ids, body.value.filter, &caller)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if body.value.dry_run {
        let page = match verb {
            BulkVerb::Cancel => acting.cancelable(&filter, from).await?,
            BulkVerb::Retry => acting.retryable(&filter, from).await?,
            BulkVerb::Delete => acting.matching(&filter, from).await?,
        };
        let results =
            page.ids.into_iter().map(|id| BulkResult { id, outcome: "matched".to_owned() }).collect();
        // A dry run changes nothing, so nothing is committed or audited.
        return Ok(Json(response(results, None, page.next, named.as_deref())));
    }
    let bulk = match verb {
        BulkVerb::Cancel => acting.cancel_many(&filter, from).await?,
        BulkVerb::Retry => acting.retry_many(&filter, from).await?,
        BulkVerb::Delete => acting.delete_many(&filter, from).await?,
    };
    acting.commit().await?;
    let changed = bulk.changed();
    let results = bulk.outcomes.into_iter().map(|(id, outcome)| BulkResult { id, outcome }).collect();
    Ok(Json(response(results, Some(changed), bulk.next, named.as_deref())))
}

/// The filter, and the ids if given.
fn which(
    ids: Option<Vec<Uuid>>,
    filter: Option<FilterBody>,
    caller: &Caller,
) -> Result<(Filter, Option<Vec<Uuid>>), Problem> {
    match (ids, filter) {
        (Some(ids), None) if ids.len() <= 1000 => {
            Ok((Filter::new(caller.tenant()).ids(ids.iter().copied()), Some(ids)))
        }
        (Some(_), None) => Err(Problem::invalid("/ids", "must have at most 1000 ids")),
        (None, Some(filter)) => Ok((filter.filter(caller, "/filter/")?, None)),
        _ => Err(Problem::invalid("/ids", "specify either ids or filter")),
    }
}

/// Ids without a matching job are reported as missing, even if another tenant has such a job. A dry run changed none.
fn response(
    mut results: Vec<BulkResult>,
    changed: Option<usize>,
    next: Option<BulkCursor>,
    named: Option<&[Uuid]>,
) -> BulkResponse {
    let matched = results.len();
    for id in named.unwrap_or_default() {
        if !results.iter().any(|result| result.id == *id) {
            results.push(BulkResult { id: *id, outcome: "missing".to_owned() });
        }
    }
    let next_cursor = next.filter(|_| named.is_none()).map(|next| next.to_string());
    BulkResponse {
        dry_run: changed.is_none(),
        matched,
        changed: changed.unwrap_or_default(),
        has_more: next_cursor.is_some(),
        next_cursor,
        results,
    }
}
