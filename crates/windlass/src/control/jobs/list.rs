//! Reading jobs, and the operator's verbs on all that a filter matches.
//!
//! A page is read in one transaction: first its ids, from whichever table knows the wanted jobs in order, then the jobs.
//! Verbs on many go through ids alone, page by page, each page a transaction of its own with one audit row; a job is met once,
//! because the walk only ever goes to older ids, or towards the front of the line.

use uuid::Uuid;

use crate::control::jobs::search;
use crate::error::Result;
use crate::model::actor::Reach;
use crate::model::filter::{Filter, LARGEST_PAGE};
use crate::model::record::{Attempt, Counts, Job, Page};
use crate::queue::Queue;
use crate::store;
use crate::store::bulk::Found;

/// Jobs per statement of a verb on many, so that no transaction is long.
const BATCH: u16 = 500;

impl Queue {
    /// One page of the jobs that match, newest first. It may have fewer than asked for: it ends after about 4 MiB.
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

    /// One job, or nothing if the tenant has none with this id.
    pub async fn job(&self, tenant: Uuid, id: Uuid) -> Result<Option<Job>> {
        Ok(store::list::jobs(self.database(), tenant, &[id]).await?.pop())
    }

    /// The attempts of a job, oldest first, the one under way included.
    pub async fn attempts(&self, tenant: Uuid, id: Uuid) -> Result<Vec<Attempt>> {
        let session = store::list::begin(self.database(), Some(tenant)).await?;
        let attempts = store::attempt::all(&session, tenant, id).await?;
        session.commit().await?;
        Ok(attempts)
    }

    /// Jobs per tenant, queue, definition and status, exact. For every tenant that the connection's role may see if
    /// none is named.
    pub async fn counts(&self, tenant: Option<Uuid>) -> Result<Vec<Counts>> {
        store::list::counts(self.database(), tenant).await
    }

    /// How many jobs match: what a verb on many would meet. It walks them, so it costs by their number.
    pub async fn count_matching(&self, filter: &Filter) -> Result<u64> {
        let mut walk = Walk::new(filter, LARGEST_PAGE);
        let mut count = 0;
        while let Some(ids) = walk.next(self).await? {
            count += ids.len() as u64;
        }
        Ok(count)
    }

    /// Cancels what matches, as [`Queue::cancel`] does each. Answers how many are canceled or were asked to stop.
    pub async fn cancel_matching(&self, filter: &Filter) -> Result<u64> {
        let mut walk = Walk::new(filter, BATCH);
        let mut canceled = 0;
        while let Some(ids) = walk.next(self).await? {
            let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
            canceled += store::bulk::cancel_many(self.database(), &found).await?;
        }
        Ok(canceled)
    }

    /// Runs what matches again, as [`Queue::retry`] does each; jobs that have not ended, or whose dedupe key
    /// another job holds, are left alone. Answers how many were taken back.
    pub async fn retry_matching(&self, filter: &Filter, actor: &str) -> Result<u64> {
        let mut walk = Walk::new(filter, BATCH);
        let mut retried = 0;
        while let Some(ids) = walk.next(self).await? {
            let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
            retried += store::bulk::retry_many(self.database(), &found, actor).await?;
        }
        Ok(retried)
    }

    /// Deletes what matches, whole. Answers how many jobs went.
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

/// The ids of one page, and where the next one begins.
async fn ids(queue: &Queue, filter: &Filter) -> Result<(Vec<Uuid>, Option<Uuid>)> {
    if filter.mentions.is_none() {
        return store::list::ids(queue.database(), filter).await;
    }
    let session = store::list::begin(queue.database(), Some(filter.tenant)).await?;
    let (ids, next, _) = search::within(&session, filter).await?;
    session.commit().await?;
    Ok((ids, next))
}

/// Goes through the ids that match, page by page.
struct Walk {
    filter: Filter,
    is_over: bool,
}

impl Walk {
    fn new(filter: &Filter, page: u16) -> Self {
        Self { filter: filter.clone().limit(page), is_over: false }
    }

    async fn next(&mut self, queue: &Queue) -> Result<Option<Vec<Uuid>>> {
        // A search may find nothing among the jobs that it looked at, and have more before it.
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
