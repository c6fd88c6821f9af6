//! The log of a running job, as a stream of events that the terminal of the page follows. Each event has its position,
//! so that a browser that reconnects continues there.

use std::convert::Infallible;

use axum::extract::State as FromState;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use windlass::job::{LogChunk, LogPosition};

use super::problem::PageProblem;
use super::url_parameters::{PathId, UiQuery};
use crate::auth::Caller;
use crate::http::{App, Follower, More, StreamAccess, failed, revoked};

#[derive(Debug, Deserialize)]
pub(crate) struct LogStart {
    after: Option<String>,
}

/// `GET /ui/jobs/{job_id}/log`
pub(crate) async fn follow(
    FromState(app): FromState<App>,
    caller: Caller,
    access: StreamAccess,
    PathId(id): PathId,
    UiQuery(from): UiQuery<LogStart>,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned).or(from.after);
    let after = seen.and_then(|text| text.parse::<LogPosition>().ok()).unwrap_or_default();
    let mut follower = Follower::new(app, caller, access, id, after);
    // The first read decides between a stream and a 404.
    let first = follower.read().await?;
    let rest = stream::unfold(Some(follower), |follower| async {
        let mut follower = follower?;
        match follower.next().await {
            More::Chunks(chunks) => Some((event(&chunks), Some(follower))),
            // The page is then fetched again, and shows why.
            More::Over => Some((Event::default().event("end").data("over"), None)),
            More::Revoked(problem) => Some((revoked(&problem), None)),
            More::Failed(problem) => Some((failed(&problem), None)),
        }
    });
    let first = stream::iter((!first.is_empty()).then(|| event(&first)));
    let events = first.chain(rest).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

fn event(chunks: &[LogChunk]) -> Event {
    let position = chunks.last().map(|chunk| chunk.position.to_string()).unwrap_or_default();
    let event = Event::default().event("log").id(position);
    event.json_data(chunks).unwrap_or_else(|_| Event::default().comment("skipped"))
}
