//! Follows the log of a job while it is written: for the stream of the API and that of the page.

use std::time::Duration;

use axum::response::sse::Event;
use serde_json::json;
use uuid::Uuid;
use windlass::job::{LogChunk, LogPosition};

use super::app::App;
use super::continued_access::StreamAccess;
use super::problem::{Problem, ProblemKind};
use crate::auth::Caller;

/// How often the log is read.
const POLL: Duration = Duration::from_millis(250);

/// Reads the log of a job for one caller. No connection is held between two reads.
pub(crate) struct Follower {
    app: App,
    caller: Caller,
    access: StreamAccess,
    job: Uuid,
    after: LogPosition,
    is_over: bool,
}

/// The next part of a log.
pub(crate) enum More {
    Chunks(Vec<LogChunk>),
    /// The job has ended or was deleted, or the server stops.
    Over,
    Revoked(Problem),
    /// The log cannot be read.
    Failed(Problem),
}

impl Follower {
    pub(crate) fn new(app: App, caller: Caller, access: StreamAccess, job: Uuid, after: LogPosition) -> Self {
        Self { app, caller, access, job, after, is_over: false }
    }

    pub(crate) async fn read(&mut self) -> Result<Vec<LogChunk>, Problem> {
        let reading = self.app.queue().read(self.caller.reach()).await?;
        let page = reading.read_log(self.caller.tenant(), self.job, self.after).await?;
        reading.end().await?;
        self.after = page.next;
        self.is_over = page.is_over;
        Ok(page.chunks)
    }

    /// Waits for more.
    pub(crate) async fn next(&mut self) -> More {
        while !self.is_over {
            tokio::select! {
                () = tokio::time::sleep(self.access.pace(POLL)) => {}
                () = self.app.stopping().cancelled() => return More::Over,
            }
            if let Err(problem) = self.access.renew().await {
                return More::Revoked(problem);
            }
            match self.read().await {
                Ok(chunks) if chunks.is_empty() => {}
                Ok(chunks) => return More::Chunks(chunks),
                Err(problem) if is_transient(problem.kind) => {}
                Err(problem) if problem.kind == ProblemKind::NotFound => return More::Over,
                Err(problem) => return More::Failed(problem),
            }
        }
        More::Over
    }
}

/// Whether the next read may succeed; it follows soon.
fn is_transient(kind: ProblemKind) -> bool {
    matches!(
        kind,
        ProblemKind::Unavailable
            | ProblemKind::Contention
            | ProblemKind::TooManyRequests
            | ProblemKind::Timeout
    )
}

/// The last event of a stream that cannot be continued.
pub(crate) fn failed(problem: &Problem) -> Event {
    let about = json!({"type": problem.kind.urn(), "detail": problem.detail});
    Event::default().event("error").data(about.to_string())
}

#[cfg(test)]
mod tests {
    use super::{ProblemKind, is_transient};

    #[test]
    fn a_read_that_timed_out_is_repeated() {
        for kind in [ProblemKind::Timeout, ProblemKind::Unavailable, ProblemKind::TooManyRequests] {
            assert!(is_transient(kind), "{kind:?}");
        }
        for kind in [ProblemKind::NotFound, ProblemKind::Internal, ProblemKind::Forbidden] {
            assert!(!is_transient(kind), "{kind:?}");
        }
    }
}
