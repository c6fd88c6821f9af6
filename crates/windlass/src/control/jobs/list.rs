//! Reading jobs, and the operations on all jobs that match a filter.
//!
//! A page is read in one transaction: first its ids, from the table that has the matching jobs in order, then the jobs.
//! Operations on many jobs process ids only, page by page; each page is a transaction with one audit entry. A job is
//! processed once, because the next page has only older ids, or positions closer to the front of the queue.

use uuid::Uuid;

use crate::control::jobs::search;
use crate::error::Result;
use crate::model::actor::Reach;
use crate::model::filter::{Filter, MAX_PAGE};
use crate::model::record::{Attempt, Counts, Job, Page};
use crate::queue::Queue;
use crate::store;
use crate::store::bulk::Found;

/// The number of jobs per statement of a bulk operation, so that no transaction is long.
const BATCH: u16 = 500;

impl Queue {
    /// One page of the matching jobs, newest first. It may have fewer jobs than the limit, because a page ends after
    /// about 4 MiB.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::job::{Filter, State};
    ///
    /// let mut filter = Filter::new(windlass::DEFAULT_TENANT).state(State::Running);
    /// loop {
    ///     let page = queue.list(&filter).await?;
    ///     for job in &page.jobs {
    ///         println!("{} {}", job.id, job.definition_key);
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     filter = filter.older_than(next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, filter: &Filter) -> Result<Page> {
        if filter.mentions.is_some() {
            let session = store::list::begin(self.database(), Some(filter.tenant)).await?;
            let (ids, next, searched) = search::within(&session, filter).await?;
            let (jobs, next) = store::page::jobs_of(&session, filter.tenant, &ids, &ids, next).await?;
            session.commit().await?;
            return Ok(Page { jobs, next, searched: Some(searched) });
        }
        let (jobs, next) = store::page::page(self.database(), filter).await?;
        Ok(Page { jobs, next, searched: None })
    }

    /// One job; none if the tenant has no job with this id.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, id: uuid::Uuid) -> windlass::Result<()> {
    /// if let Some(job) = queue.job(windlass::DEFAULT_TENANT, id).await? {
    ///     println!("{} after {} attempts: {:?}", job.status, job.attempt_count, job.last_error);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn job(&self, tenant: Uuid, id: Uuid) -> Result<Option<Job>> {
        Ok(store::list::jobs(self.database(), tenant, &[id]).await?.pop())
    }

    /// The attempts of a job, oldest first, including the running one.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, id: uuid::Uuid) -> windlass::Result<()> {
    /// for attempt in queue.attempts(windlass::DEFAULT_TENANT, id).await? {
    ///     println!("{}: {} {:?}", attempt.attempt_no, attempt.status, attempt.error_text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn attempts(&self, tenant: Uuid, id: Uuid) -> Result<Vec<Attempt>> {
        let session = store::list::begin(self.database(), Some(tenant)).await?;
        let attempts = store::attempt::all(&session, tenant, id).await?;
        session.commit().await?;
        Ok(attempts)
    }

    /// Jobs per tenant, queue, definition and status; exact. Without a tenant, for all tenants that are visible to the
    /// role of the connection.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// for counts in queue.counts(Some(windlass::DEFAULT_TENANT)).await? {
    ///     println!("{}: {} queued", counts.definition_key, counts.queued);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn counts(&self, tenant: Option<Uuid>) -> Result<Vec<Counts>> {
        store::list::counts(self.database(), tenant).await
    }

    /// Returns how many jobs match: those that a bulk operation would affect. It reads all of them, so the cost depends
    /// on their number.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::job::{Filter, State};
    ///
    /// let failed = Filter::new(windlass::DEFAULT_TENANT).state(State::Failed).definition_key("resize");
    /// println!("{} would be deleted", queue.count_matching(&failed).await?);
    /// queue.purge_matching(&failed).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count_matching(&self, filter: &Filter) -> Result<u64> {
        let mut walk = Walk::new(filter, MAX_PAGE);
        let mut count = 0;
        while let Some(ids) = walk.next(self).await? {
            count += ids.len() as u64;
        }
        Ok(count)
    }

    /// Cancels the matching jobs like [`Queue::cancel`]. Returns how many were canceled or have a cancel request.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::job::Filter;
    ///
    /// let tagged = Filter::new(windlass::DEFAULT_TENANT).tag("import-12");
    /// println!("{} canceled", queue.cancel_matching(&tagged).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel_matching(&self, filter: &Filter) -> Result<u64> {
        let mut walk = Walk::new(filter, BATCH);
        let mut canceled = 0;
        while let Some(ids) = walk.next(self).await? {
            let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
            canceled += store::bulk::cancel_many(self.database(), &found).await?;
        }
        Ok(canceled)
    }

    /// Queues the matching jobs again like [`Queue::retry`]; jobs that have not ended, or whose dedupe key another job
    /// holds, are skipped. Returns how many were queued.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::job::{Filter, State};
    ///
    /// let dead = Filter::new(windlass::DEFAULT_TENANT).state(State::DeadLetter);
    /// println!("{} queued again", queue.retry_matching(&dead, "on call").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry_matching(&self, filter: &Filter, actor: &str) -> Result<u64> {
        let mut walk = Walk::new(filter, BATCH);
        let mut retried = 0;
        while let Some(ids) = walk.next(self).await? {
            let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
            retried += store::bulk::retry_many(self.database(), &found, actor).await?;
        }
        Ok(retried)
    }

    /// Deletes the matching jobs with their history. Returns the number of deleted jobs.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::job::Filter;
    ///
    /// let customer = Filter::new(windlass::DEFAULT_TENANT).subject("customer", "7");
    /// println!("{} deleted", queue.purge_matching(&customer).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn purge_matching(&self, filter: &Filter) -> Result<u64> {
        let mut walk = Walk::new(filter, BATCH);
        let mut purged = 0;
        while let Some(ids) = walk.next(self).await? {
            let acting = self.acting_as_login(Reach::Tenant(filter.tenant)).await?;
            purged += acting.purge(filter, &ids).await?;
            acting.commit().await?;
        }
        Ok(purged)
    }
}

/// The ids of one page, and the cursor of the next one.
async fn ids(queue: &Queue, filter: &Filter) -> Result<(Vec<Uuid>, Option<Uuid>)> {
    if filter.mentions.is_none() {
        return store::list::ids(queue.database(), filter).await;
    }
    let session = store::list::begin(queue.database(), Some(filter.tenant)).await?;
    let (ids, next, _) = search::within(&session, filter).await?;
    session.commit().await?;
    Ok((ids, next))
}

/// Iterates over the matching ids, page by page.
struct Walk {
    filter: Filter,
    is_over: bool,
}

impl Walk {
    fn new(filter: &Filter, page: u16) -> Self {
        Self { filter: filter.clone().limit(page), is_over: false }
    }

    async fn next(&mut self, queue: &Queue) -> Result<Option<Vec<Uuid>>> {
        // A search may find nothing among the jobs that it read, and still have more to read.
        while !self.is_over {
            let (ids, next) = ids(queue, &self.filter).await?;
            self.is_over = next.is_none();
            self.filter.older_than = next.or(self.filter.older_than);
            if !ids.is_empty() {
                return Ok(Some(ids));
            }
        }
        Ok(None)
    }
}
