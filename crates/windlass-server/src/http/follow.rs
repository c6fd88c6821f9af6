//! Follows the log of a job while it is written: for the stream of the API and that of the page.

use std::time::Duration;

use uuid::Uuid;
use windlass::job::{LogChunk, LogPosition};

use super::app::App;
use super::problem::{Problem, ProblemKind};
use super::standing::Standing;
use crate::auth::Caller;

/// How often the log is read.
const POLL: Duration = Duration::from_millis(250);

/// Reads the log of a job for one caller. No connection is held between two reads.
pub(crate) struct Follower {
    app: App,
    caller: Caller,
    standing: Standing,
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
}

impl Follower {
    pub(crate) fn new(app: App, caller: Caller, standing: Standing, job: Uuid, after: LogPosition) -> Self {
        Self { app, caller, standing, job, after, is_over: false }
    }

    pub(crate) async fn read(&mut self) -> Result<Vec<LogChunk>, Problem> {
        let looking = self.app.queue().look(self.caller.reach()).await?;
        let page = looking.read_log(self.caller.tenant(), self.job, self.after).await?;
        looking.end().await?;
        self.after = page.next;
        self.is_over = page.is_over;
        Ok(page.chunks)
    }

    /// Waits for more.
    pub(crate) async fn next(&mut self) -> More {
        while !self.is_over {
            tokio::select! {
                () = tokio::time::sleep(self.standing.pace(POLL)) => {}
                () = self.app.stopping().cancelled() => return More::Over,
            }
            if let Err(problem) = self.standing.renew().await {
                return More::Revoked(problem);
            }
            match self.read().await {
                Ok(chunks) if chunks.is_empty() => {}
                Ok(chunks) => return More::Chunks(chunks),
                // A transient error; the next read follows soon.
                Err(problem)
                    if matches!(problem.kind, ProblemKind::Unavailable | ProblemKind::TooManyRequests) => {}
                Err(_) => return More::Over,
            }
        }
        More::Over
    }
}
