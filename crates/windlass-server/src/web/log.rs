//! What a running job prints, as a stream of events the page's terminal follows. Each event carries its position, so a
//! browser that comes back goes on where it was.

use std::convert::Infallible;

use axum::extract::{Query, State as FromState};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use windlass::LogPosition;

use super::page::PageProblem;
use crate::auth::Caller;
use crate::http::{App, Id, Problem};

#[derive(Debug, Deserialize)]
pub(crate) struct From {
    after: Option<String>,
}

/// `GET /ui/jobs/{job_id}/log`
pub(crate) async fn follow(
    FromState(app): FromState<App>,
    caller: Caller,
    Id(id): Id,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, PageProblem> {
    let tenant = caller.tenant();
    let looking = app.queue().look(caller.reach()).await?;
    looking.job(tenant, id).await?.ok_or_else(|| Problem::not_found("job"))?;
    looking.end().await?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned).or(from.after);
    let after = seen.and_then(|text| text.parse::<LogPosition>().ok()).unwrap_or_default();
    let follower = app.queue().follow_log(tenant, id, after);
    let events = stream::unfold(Some(follower), |follower| async {
        let mut follower = follower?;
        match follower.next().await {
            Ok(Some(chunks)) => {
                let position = chunks.last().map(|chunk| chunk.position.to_string()).unwrap_or_default();
                let event = Event::default().event("log").id(position);
                let event = event.json_data(&chunks).unwrap_or_else(|_| Event::default().comment("skipped"));
                Some((event, Some(follower)))
            }
            // Over, or unreachable: the page looks again, and says which.
            Ok(None) | Err(_) => Some((Event::default().event("end").data("over"), None)),
        }
    });
    let stopping = app.stopping().clone();
    let events = events.take_until(stopping.cancelled_owned()).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}
