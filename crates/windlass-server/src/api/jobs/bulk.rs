//! Verbs on many: by ids or by a filter, first without effect if one likes. One call is one transaction with one audit row, so it
//! takes a thousand at most and says when there are more.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::{Act, Acting, Bulk, Filter};

use super::filter::FilterBody;
use crate::auth::Caller;
use crate::http::{App, Body, Problem, object};

/// Which jobs, and whether in earnest.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    /// These jobs. Either `ids` or `filter`.
    #[schema(max_items = 1000)]
    ids: Option<Vec<Uuid>>,
    /// What fits. An empty filter is every job.
    #[serde(default, deserialize_with = "object")]
    filter: Option<FilterBody>,
    /// Only say what would be met.
    #[serde(default)]
    dry_run: bool,
}

/// What was met, and what came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkAnswer {
    dry_run: bool,
    /// Jobs that fit, up to a thousand.
    matched: usize,
    /// Jobs that are other than they were.
    changed: usize,
    /// More fit than one call takes: call again.
    has_more: bool,
    results: Vec<BulkResult>,
}

/// What came of one job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkResult {
    id: Uuid,
    /// `canceled`, `requested`, `queued`, `blocked`, `deleted`; or, unchanged, `finished`, `not_finished`, `duplicate`, `missing`,
    /// `matched` (dry run).
    #[schema(example = "canceled")]
    outcome: String,
}

#[derive(Clone, Copy)]
enum Verb {
    Cancel,
    Retry,
    Delete,
}

/// Cancel many jobs
#[utoipa::path(post, path = "/api/v1/jobs/cancel", tag = "jobs", request_body = BulkBody, responses((status = 200, body = BulkAnswer)))]
pub(crate) async fn cancel(
    app: State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkAnswer>, Problem> {
    run(Verb::Cancel, app, caller, body).await
}

/// Run many finished jobs once more
#[utoipa::path(post, path = "/api/v1/jobs/retry", tag = "jobs", request_body = BulkBody, responses((status = 200, body = BulkAnswer)))]
pub(crate) async fn retry(
    app: State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkAnswer>, Problem> {
    run(Verb::Retry, app, caller, body).await
}

/// Delete many jobs
///
/// Whole, whatever their state: a run that is under way loses its lease.
#[utoipa::path(post, path = "/api/v1/jobs/delete", tag = "jobs", request_body = BulkBody, responses((status = 200, body = BulkAnswer)))]
pub(crate) async fn delete(
    app: State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkAnswer>, Problem> {
    run(Verb::Delete, app, caller, body).await
}

async fn run(
    verb: Verb,
    State(app): State<App>,
    caller: Caller,
    body: Body<BulkBody>,
) -> Result<Json<BulkAnswer>, Problem> {
    let (filter, named) = which(body.value.ids, body.value.filter, &caller)?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if body.value.dry_run {
        let (ids, has_more) = match verb {
            Verb::Cancel => acting.cancelable(&filter).await?,
            Verb::Retry => acting.retryable(&filter).await?,
            Verb::Delete => acting.matching(&filter).await?,
        };
        let outcomes = ids.into_iter().map(|id| (id, "matched".to_owned())).collect();
        // Nothing was done, so nothing is committed and nothing audited.
        return Ok(Json(answer(&Bulk { outcomes, has_more }, named.as_deref(), true)));
    }
    let (bulk, action) = act(verb, &acting, &filter).await?;
    let answer = answer(&bulk, named.as_deref(), false);
    let changed: Vec<&Uuid> = bulk.outcomes.iter().map(|(id, _)| id).collect();
    let after = serde_json::json!({"changed": bulk.changed(), "ids": changed});
    acting.commit(&Act::new(action, format!("{} jobs", answer.matched)).after(&after)).await?;
    Ok(Json(answer))
}

async fn act(verb: Verb, acting: &Acting, filter: &Filter) -> Result<(Bulk, &'static str), Problem> {
    Ok(match verb {
        Verb::Cancel => (acting.cancel_many(filter).await?, "job.cancel_many"),
        Verb::Retry => (acting.retry_many(filter).await?, "job.retry_many"),
        Verb::Delete => (acting.delete_many(filter).await?, "job.delete_many"),
    })
}

/// A filter, and the ids if they were named.
fn which(
    ids: Option<Vec<Uuid>>,
    filter: Option<FilterBody>,
    caller: &Caller,
) -> Result<(Filter, Option<Vec<Uuid>>), Problem> {
    match (ids, filter) {
        (Some(ids), None) if ids.len() <= 1000 => {
            Ok((Filter::new(caller.tenant()).ids(ids.iter().copied()), Some(ids)))
        }
        (Some(_), None) => Err(Problem::invalid("/ids", "are at most 1000")),
        (None, Some(filter)) => Ok((filter.filter(caller, "/filter/")?, None)),
        _ => Err(Problem::invalid("/ids", "give either ids or a filter")),
    }
}

/// Ids that were named and met nothing are said to be missing, whoever's they are.
fn answer(bulk: &Bulk, named: Option<&[Uuid]>, dry_run: bool) -> BulkAnswer {
    let mut results: Vec<BulkResult> =
        bulk.outcomes.iter().map(|(id, outcome)| BulkResult { id: *id, outcome: outcome.clone() }).collect();
    let matched = results.len();
    for id in named.unwrap_or_default() {
        if !results.iter().any(|result| result.id == *id) {
            results.push(BulkResult { id: *id, outcome: "missing".to_owned() });
        }
    }
    let changed = if dry_run { 0 } else { bulk.changed() };
    BulkAnswer { dry_run, matched, changed, has_more: bulk.has_more && named.is_none(), results }
}
