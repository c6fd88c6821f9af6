//! Server-sent events: the log of a job while it runs, and word that something changed.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use uuid::Uuid;
use windlass::{LogChunk, LogPosition};

use crate::auth::Caller;
use crate::http::{App, Change, Id, Problem, changes};

/// How often a log is looked at.
const POLL: Duration = Duration::from_millis(250);

/// Follow a job's log
///
/// Server-sent events `chunk` with `{position, stream, at, text}`, from the beginning or after `Last-Event-ID`, until the job has
/// ended; then `end`.
#[utoipa::path(get, path = "/api/v1/jobs/{job_id}/logs", tag = "jobs",
    params(("job_id" = Uuid, Path), ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn logs(
    State(app): State<App>,
    caller: Caller,
    Id(job): Id,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let after = last.map_or(Ok(LogPosition::default()), str::parse);
    let after = after.map_err(|_| {
        Problem::of(crate::http::ProblemKind::BadRequest, "Last-Event-ID must be attempt.chunk")
    })?;
    let mut follower = Follower { app, caller, job, after, is_over: false };
    // The first look decides between a stream and a 404.
    let first = follower.look().await?;
    let rest = stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        match follower.next().await {
            Some(chunks) => Some((chunks.iter().map(event).collect(), Some(follower))),
            None => Some((vec![Event::default().event("end").data("{}")], None)),
        }
    });
    let events = stream::iter([first.iter().map(event).collect::<Vec<_>>()]).chain(rest);
    let events = events.flat_map(stream::iter).map(Ok);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

struct Follower {
    app: App,
    caller: Caller,
    job: Uuid,
    after: LogPosition,
    is_over: bool,
}

impl Follower {
    async fn look(&mut self) -> Result<Vec<LogChunk>, Problem> {
        let looking = self.app.queue().look(self.caller.reach()).await?;
        let page = looking.read_log(self.caller.tenant(), self.job, self.after).await?;
        looking.end().await?;
        self.after = page.next;
        self.is_over = page.is_over;
        Ok(page.chunks)
    }

    /// Waits for more; none once the job has ended, is gone, or the server stops.
    async fn next(&mut self) -> Option<Vec<LogChunk>> {
        while !self.is_over {
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = self.app.stopping().cancelled() => return None,
            }
            match self.look().await {
                Ok(chunks) if chunks.is_empty() => {}
                Ok(chunks) => return Some(chunks),
                Err(problem) if problem.kind == crate::http::ProblemKind::Unavailable => {}
                Err(_) => return None,
            }
        }
        None
    }
}

fn event(chunk: &LogChunk) -> Event {
    let data = serde_json::to_string(chunk).unwrap_or_else(|_| "{}".to_owned());
    Event::default().event("chunk").id(chunk.position.to_string()).data(data)
}

/// Hear when something changed
///
/// Server-sent events `counts` with the counts by status, at once and whenever they differ, at most once a second.
#[utoipa::path(get, path = "/api/v1/jobs/stream", tag = "jobs", responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn watch(
    State(app): State<App>,
    caller: Caller,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = changes(app, caller.reach()).map(|change| match change {
        Change::Counts(summary) => Event::default()
            .event("counts")
            .data(serde_json::to_string(&summary).unwrap_or_else(|_| "{}".to_owned())),
        Change::Nothing => Event::default().comment("nothing new"),
    });
    Sse::new(events.map(Ok)).keep_alive(KeepAlive::default())
}
