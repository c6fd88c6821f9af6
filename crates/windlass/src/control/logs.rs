//! Reading the logs of jobs while they run.
//!
//! A reader requests the chunks after a position and polls if there are none: no connection is held in between, and a
//! reader that reconnects continues at its position. A line is visible within a second: workers write every quarter of
//! a second, and a follower reads as often.

use std::time::Duration;

use uuid::Uuid;

use crate::control::transaction::Reading;
use crate::error::{Error, Result};
use crate::model::actor::Reach;
use crate::model::log::{LogChunk, LogPage, LogPosition};
use crate::queue::Queue;
use crate::store;

/// The number of chunks per page. One chunk has at most a few kilobytes.
const PAGE: i64 = 200;
/// How often a follower reads.
const POLL: Duration = Duration::from_millis(250);

impl Queue {
    /// Returns the log of the job after the position, as far as it is written.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// use windlass::job::LogPosition;
    ///
    /// let page = queue.read_log(windlass::DEFAULT_TENANT, job, LogPosition::default()).await?;
    /// for chunk in &page.chunks {
    ///     print!("{}", chunk.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_log(&self, tenant: Uuid, job: Uuid, after: LogPosition) -> Result<LogPage> {
        if self.is_callers() {
            let reading = self.read(Reach::Tenant(tenant)).await?;
            let page = reading.read_log(tenant, job, after).await?;
            reading.end().await?;
            return Ok(page);
        }
        let page = store::log::read(self.database(), tenant, job, after, PAGE).await?;
        page.ok_or(Error::UnknownJob { job })
    }

    /// Follows a job's log from the position until the job ends.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// use windlass::job::LogPosition;
    ///
    /// let mut log = queue.follow_log(windlass::DEFAULT_TENANT, job, LogPosition::default());
    /// while let Some(chunks) = log.next().await? {
    ///     chunks.iter().for_each(|chunk| print!("{}", chunk.text));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow_log(&self, tenant: Uuid, job: Uuid, after: LogPosition) -> LogFollower {
        LogFollower { queue: self.clone(), tenant, job, after, is_over: false }
    }
}

impl Reading {
    /// Returns the log of the job after the position, as a caller sees it.
    ///
    /// ```no_run
    /// # async fn example(reading: &windlass::admin::Reading, job: uuid::Uuid) -> windlass::Result<()> {
    /// use windlass::job::LogPosition;
    ///
    /// let page = reading.read_log(windlass::DEFAULT_TENANT, job, LogPosition::default()).await?;
    /// println!("{} chunks; the job {}", page.chunks.len(), if page.is_over { "has ended" } else { "continues" });
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_log(&self, tenant: Uuid, job: Uuid, after: LogPosition) -> Result<LogPage> {
        let page = store::log::read_in(&self.session, tenant, job, after, PAGE).await?;
        page.ok_or(Error::UnknownJob { job })
    }
}

/// A reader of one job's log. It holds no connection between two reads; drop it to stop.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, job: uuid::Uuid, stored: &str) -> windlass::Result<()> {
/// use windlass::job::LogPosition;
///
/// // Continue where an earlier process stopped.
/// let from: LogPosition = stored.parse().unwrap_or_default();
/// let mut log = queue.follow_log(windlass::DEFAULT_TENANT, job, from);
/// while let Some(chunks) = log.next().await? {
///     chunks.iter().for_each(|chunk| print!("{}", chunk.text));
///     println!("at {}", log.position());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogFollower {
    queue: Queue,
    tenant: Uuid,
    job: Uuid,
    after: LogPosition,
    is_over: bool,
}

impl LogFollower {
    /// Waits for more; returns none when the job has ended and everything was returned.
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

    /// The position at which a new follower would continue.
    pub fn position(&self) -> LogPosition {
        self.after
    }
}
