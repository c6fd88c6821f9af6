//! Server-sent events: the log of a job while it runs, and changes of the job counts.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use windlass::job::{LogChunk, LogPosition};

use crate::auth::Caller;
use crate::http::{App, Change, Follower, Id, More, Problem, StreamAccess, changes, failed, revoked};

/// Follow the log of a job
///
/// Sends server-sent events `chunk` with `{position, stream, at, text}`, from the beginning or after `Last-Event-ID`, until the
/// job has ended; then `end`. The last event is `revoked` if the credential loses access, and `error` if the log cannot be read.
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/logs", tag = "jobs",
    params(("job_id" = Uuid, Path), ("Last-Event-ID" = Option<String>, Header, description = "The id of the last received event")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn logs(
    State(app): State<App>,
    caller: Caller,
    access: StreamAccess,
    Id(job): Id,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let after = last.map_or(Ok(LogPosition::default()), str::parse);
    let after = after.map_err(|_| {
        Problem::of(crate::http::ProblemKind::BadRequest, "Last-Event-ID must be attempt.chunk")
    })?;
    let mut follower = Follower::new(app, caller, access, job, after);
    // The first read decides between a stream and a 404.
    let first = follower.read().await?;
    let rest = stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        match follower.next().await {
            More::Chunks(chunks) => Some((chunks.iter().map(event).collect(), Some(follower))),
            More::Over => Some((vec![Event::default().event("end").data("{}")], None)),
            More::Revoked(problem) => Some((vec![revoked(&problem)], None)),
            More::Failed(problem) => Some((vec![failed(&problem)], None)),
        }
    });
    let events = stream::iter([first.iter().map(event).collect::<Vec<_>>()]).chain(rest);
    let events = events.flat_map(stream::iter).map(Ok);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

fn event(chunk: &LogChunk) -> Event {
    let data = serde_json::to_string(chunk).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event("chunk").id(chunk.position.to_string()).data(data)
}

/// Follow the job counts
///
/// Sends server-sent events `counts` with the counts by status, first immediately and then when they change, at most once a second.
/// The last event is `revoked` if the credential loses access.
#[utoipa::path(get, path = "/api/v1/jobs/stream", tag = "jobs", responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn watch(
    State(app): State<App>,
    caller: Caller,
    access: StreamAccess,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = changes(app, caller.reach(), access).map(|change| match change {
        Change::Counts(summary) => Event::default()
            .event("counts")
            .data(serde_json::to_string(&summary).unwrap_or_else(|_| "{}".to_owned())),
        Change::Nothing => Event::default().comment("keep-alive"),
        Change::Revoked(problem) => revoked(&problem),
    });
    Sse::new(events.map(Ok)).keep_alive(KeepAlive::default())
}
