//! Reading what runs print, while they print it.
//!
//! A reader asks for what comes after a position and polls while there is nothing: no connection is held in between, and a
//! reader that comes back later goes on where it was. A line is there within a second of being printed: workers write
//! every quarter of a second, and a follower looks as often.

use std::time::Duration;

use uuid::Uuid;

use crate::control::transaction::Looking;
use crate::error::{Error, Result};
use crate::model::actor::Reach;
use crate::model::log::{LogChunk, LogPage, LogPosition};
use crate::queue::Queue;
use crate::store;

/// Chunks per page. One chunk has at most a few kilobytes.
const PAGE: i64 = 200;
/// How often a follower looks.
const POLL: Duration = Duration::from_millis(250);

impl Queue {
    /// What the job printed after the position, as far as it is known now.
    pub async fn read_log(&self, tenant: Uuid, job: Uuid, after: LogPosition) -> Result<LogPage> {
        if self.is_callers() {
            let looking = self.look(Reach::Tenant(tenant)).await?;
            let page = looking.read_log(tenant, job, after).await?;
            looking.end().await?;
            return Ok(page);
        }
        let page = store::log::read(self.database(), tenant, job, after, PAGE).await?;
        page.ok_or(Error::UnknownJob { job })
    }

    /// Follows a job's log from the position until the job ends.
    pub fn follow_log(&self, tenant: Uuid, job: Uuid, after: LogPosition) -> LogFollower {
        LogFollower { queue: self.clone(), tenant, job, after, is_over: false }
    }
}

impl Looking {
    /// What the job printed after the position, as a caller sees it.
    pub async fn read_log(&self, tenant: Uuid, job: Uuid, after: LogPosition) -> Result<LogPage> {
        let page = store::log::read_in(&self.session, tenant, job, after, PAGE).await?;
        page.ok_or(Error::UnknownJob { job })
    }
}

/// A reader of one job's log. It holds no connection between its looks; drop it to stop.
#[derive(Debug)]
pub struct LogFollower {
    queue: Queue,
    tenant: Uuid,
    job: Uuid,
    after: LogPosition,
    is_over: bool,
}

impl LogFollower {
    /// Waits for more; none once the job has ended and everything was given.
    pub async fn next(&mut self) -> Result<Option<Vec<LogChunk>>> {
        while !self.is_over {
            let page = self.queue.read_log(self.tenant, self.job, self.after).await?;
            self.after = page.next;
            self.is_over = page.is_over;
            if !page.chunks.is_empty() {
                return Ok(Some(page.chunks));
            }
            if !self.is_over {
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(None)
    }

    /// Where a new follower would go on.
    pub fn position(&self) -> LogPosition {
        self.after
    }
}
