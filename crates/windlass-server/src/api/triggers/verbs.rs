//! Actions on triggers: preview, history, run now, backfill, and dry run of an event.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use windlass::events::{NewEvent, WouldFire};
use windlass::schedule::{Cron, DueRun, Fire, FireOutcome};

use super::schema;
use crate::auth::{Caller, Permission};
use crate::http::{
    App, Body, Id, IdempotencyKey, PayloadBody, Problem, Query, Time, page_limit, replay, store_response,
};

const MAX_PREVIEWED: usize = 1000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PreviewQuery {
    /// The number of runs (default 5).
    #[param(minimum = 1, maximum = 1000)]
    count: Option<usize>,
}

/// The next runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Preview {
    #[schema(value_type = Vec<schema::DueRun>)]
    runs: Vec<DueRun>,
    /// The cron expression in words.
    in_words: Option<String>,
}

/// Preview the next runs of a schedule
///
/// In its time zone, with notes at daylight saving changes.
#[utoipa::path(get, path = "/api/v1/jobs/triggers/{trigger_id}/preview", tag = "triggers",
    params(("trigger_id" = Uuid, Path), PreviewQuery), responses((status = 200, body = Preview)))]
pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Query(query): Query<PreviewQuery>,
) -> Result<Json<Preview>, Problem> {
    let count = checked_count(query.count, "?count")?;
    let reading = app.queue().read(caller.reach()).await?;
    let runs = reading.preview(id, count).await?;
    let cron = reading.trigger(id).await?.and_then(|trigger| trigger.fields.cron_expr);
    reading.end().await?;
    Ok(Json(Preview { runs, in_words: in_words(cron.as_deref()) }))
}

/// A schedule that is not stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewBody {
    #[schema(example = "30 2 * * *", max_length = 200)]
    cron_expr: String,
    /// An IANA time zone (default: that of the tenant).
    #[schema(example = "Europe/Berlin", max_length = 100)]
    timezone: Option<String>,
    #[schema(minimum = 1, maximum = 1000)]
    count: Option<usize>,
}

/// Preview the next runs of a new schedule
#[utoipa::path(post, path = "/api/v1/jobs/triggers/preview", tag = "triggers", request_body = PreviewBody, responses((status = 200, body = Preview)))]
pub(crate) async fn preview_new(
    State(app): State<App>,
    caller: Caller,
    body: Body<PreviewBody>,
) -> Result<Json<Preview>, Problem> {
    let PreviewBody { cron_expr, timezone, count } = body.value;
    let count = checked_count(count, "/count")?;
    let reading = app.queue().read(caller.reach()).await?;
    let runs = reading.preview_schedule(&cron_expr, timezone.as_deref(), count).await?;
    reading.end().await?;
    Ok(Json(Preview { runs, in_words: in_words(Some(&cron_expr)) }))
}

fn checked_count(count: Option<usize>, place: &str) -> Result<usize, Problem> {
    let count = count.unwrap_or(5);
    if (1..=MAX_PREVIEWED).contains(&count) {
        Ok(count)
    } else {
        Err(Problem::invalid(place, format!("must be between 1 and {MAX_PREVIEWED}")))
    }
}

fn in_words(cron: Option<&str>) -> Option<String> {
    cron.and_then(|text| Cron::parse(text).ok()).map(|cron| cron.in_words())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FiresQuery {
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u16>,
    /// Only instants before this one: the `next_cursor` of the previous page.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Time>,
}

/// The history of a trigger, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Fires {
    #[schema(value_type = Vec<schema::Fire>)]
    fires: Vec<Fire>,
    /// The cursor of the next page, for `before`; null on the last page.
    #[schema(format = DateTime)]
    next_cursor: Option<String>,
}

/// List the history of a trigger
#[utoipa::path(get, path = "/api/v1/jobs/triggers/{trigger_id}/fires", tag = "triggers",
    params(("trigger_id" = Uuid, Path), FiresQuery), responses((status = 200, body = Fires)))]
pub(crate) async fn fires(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Query(query): Query<FiresQuery>,
) -> Result<Json<Fires>, Problem> {
    let limit = page_limit(query.limit, 50, 500)?;
    let reading = app.queue().read(caller.reach()).await?;
    if reading.trigger(id).await?.is_none() {
        return Err(Problem::not_found("trigger"));
    }
    let fires = reading.fires(id, query.before.map(|at| at.0), limit).await?;
    reading.end().await?;
    let is_full = fires.len() == usize::from(limit);
    let next_cursor = fires.last().filter(|_| is_full).map(|fire| fire.due_at.to_string());
    Ok(Json(Fires { fires, next_cursor }))
}

/// The options of a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBody {
    /// Event triggers only: the payload of a simulated event.
    #[schema(value_type = Option<Object>)]
    event: Option<Value>,
}

/// Run a trigger now
///
/// Works even if the trigger is paused. The overlap policy applies: the response is `fired` with the job, or `skipped` with the reason.
#[utoipa::path(post, path = "/api/v1/jobs/triggers/{trigger_id}/run", tag = "triggers", request_body = RunBody,
    params(("trigger_id" = Uuid, Path)), responses((status = 201, body = schema::FireOutcome)))]
pub(crate) async fn run(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    key: IdempotencyKey,
    body: PayloadBody<RunBody>,
) -> Result<Response, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let fired = acting.run_trigger(id, body.value.event).await?;
    store_response(&acting, &key, StatusCode::CREATED, &json!(fired)).await?;
    acting.commit().await?;
    Ok((StatusCode::CREATED, Json(fired)).into_response())
}

/// A past range.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillBody {
    from: Time,
    until: Time,
    /// Only list the instants; enqueue nothing.
    #[serde(default)]
    dry_run: bool,
}

/// The outcome of each instant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Backfilled {
    #[schema(value_type = Vec<schema::FireOutcome>)]
    fires: Vec<FireOutcome>,
}

/// Backfill a past range
///
/// Fires the instants of the range that have not fired yet, at most 1000 with at most 8 MiB of payloads.
#[utoipa::path(post, path = "/api/v1/jobs/triggers/{trigger_id}/backfill", tag = "triggers", request_body = BackfillBody,
    params(("trigger_id" = Uuid, Path)), responses((status = 200, body = Backfilled)))]
pub(crate) async fn backfill(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    body: Body<BackfillBody>,
) -> Result<Json<Backfilled>, Problem> {
    let BackfillBody { from, until, dry_run } = body.value;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let fires = acting.backfill(id, from.0..=until.0, dry_run).await?;
    // A dry run changes nothing, so nothing is committed or audited.
    if !dry_run {
        acting.commit().await?;
    }
    Ok(Json(Backfilled { fires }))
}

/// A simulated event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DryRunBody {
    #[schema(
        example = "provider.folder.updated",
        max_length = 200,
        pattern = "^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$"
    )]
    name: String,
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    payload: Option<Value>,
}

/// The triggers that would fire.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DryRun {
    #[schema(value_type = Vec<schema::WouldFire>)]
    triggers: Vec<WouldFire>,
}

/// Show which triggers an event would fire
///
/// Returns each matching trigger with the payload of its job. Nothing is enqueued. If conditions of a trigger are hidden and you
/// cannot emit events, they are not compared: the trigger is returned without a payload, and `reason` says so.
#[utoipa::path(post, path = "/api/v1/jobs/triggers/dry-run", tag = "triggers", request_body = DryRunBody, responses((status = 200, body = DryRun)))]
pub(crate) async fn dry_run(
    State(app): State<App>,
    caller: Caller,
    body: PayloadBody<DryRunBody>,
) -> Result<Json<DryRun>, Problem> {
    let DryRunBody { name, payload } = body.value;
    let event = NewEvent::new(name).payload(&payload.unwrap_or_else(|| json!({})));
    let reading = app.queue().read(caller.reach()).await?;
    let triggers = match caller.may(Permission::EmitEvents) {
        true => reading.dry_run(&event).await?,
        false => reading.dry_run_of_reader(&event).await?,
    };
    reading.end().await?;
    Ok(Json(DryRun { triggers }))
}
