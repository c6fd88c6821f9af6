//! Searches for a text in jobs as they are shown. Redacted values are not found: otherwise a search could reveal them
//! one letter at a time. So payloads are redacted first, and then matched.
//!
//! Payloads have no index. So a search reads the newest jobs, in slices, until it has a page or has reached its limit
//! of rows, bytes or time; it returns where it stopped, and the next one continues there. A slice is one short
//! transaction, and no connection is held while its jobs are matched.

mod text;

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::blocking::by_size;
use crate::error::Result;
use crate::model::actor::Reach;
use crate::model::filter::Filter;
use crate::model::record::{Page, shown};
use crate::queue::Queue;
use crate::store;
use crate::store::database::Session;
use crate::store::search::Candidate;
use text::SearchText;

/// The limits of one search.
const MAX_ROWS: usize = 5000;
const MAX_BYTES: usize = 32 << 20;
const MAX_TIME: Duration = Duration::from_secs(2);
/// The limits of one slice.
const SLICE_ROWS: usize = 128;
const SLICE_BYTES: i64 = 4 << 20;

impl Queue {
    /// One page of the jobs that contain the filter's text, as they are shown. No connection is held between two
    /// slices.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::admin::Reach;
    /// use windlass::job::Filter;
    ///
    /// let filter = Filter::new(windlass::DEFAULT_TENANT).mentions("invoice-4711");
    /// let page = queue.search(Reach::Tenant(windlass::DEFAULT_TENANT), &filter).await?;
    /// println!("{} of {:?} jobs", page.jobs.len(), page.searched);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn search(&self, reach: Reach, filter: &Filter) -> Result<Page> {
        let mut search = Search::new(filter);
        while !search.is_over() {
            let session = store::act::read(self.database(), reach.tenant()).await?;
            let slice = search.slice(&session).await?;
            session.commit().await?;
            search.search_slice(slice).await;
        }
        let session = store::act::read(self.database(), reach.tenant()).await?;
        let (ids, next) = search.page();
        let (jobs, next) = store::page::jobs_of(&session, filter.tenant, &ids, &ids, next).await?;
        session.commit().await?;
        Ok(Page { jobs: shown(jobs), next, searched: Some(search.rows) })
    }
}

/// The ids of one page, in an open transaction, and the number of jobs that were searched.
pub(crate) async fn within(session: &Session, filter: &Filter) -> Result<(Vec<Uuid>, Option<Uuid>, usize)> {
    let mut search = Search::new(filter);
    while !search.is_over() {
        let slice = search.slice(session).await?;
        search.search_slice(slice).await;
    }
    let (ids, next) = search.page();
    Ok((ids, next, search.rows))
}

/// The progress of a search.
struct Search<'a> {
    filter: &'a Filter,
    wanted: SearchText,
    needed: usize,
    found: Vec<Uuid>,
    /// The last job that was searched.
    last: Option<Uuid>,
    rows: usize,
    bytes: usize,
    slice_rows: usize,
    began: Instant,
    /// Whether there are no jobs after the last one.
    is_at_end: bool,
}

impl<'a> Search<'a> {
    fn new(filter: &'a Filter) -> Self {
        Self {
            filter,
            wanted: SearchText::new(filter.mentions.as_deref().unwrap_or_default()),
            needed: usize::from(filter.limit) + usize::from(filter.offset),
            found: Vec::new(),
            last: None,
            rows: 0,
            bytes: 0,
            slice_rows: SLICE_ROWS,
            began: Instant::now(),
            is_at_end: false,
        }
    }

    fn is_over(&self) -> bool {
        let has_used_up = self.rows >= MAX_ROWS
            || self.bytes >= MAX_BYTES
            || self.rows > 0 && self.began.elapsed() > MAX_TIME;
        self.is_at_end || has_used_up || self.found.len() >= self.needed
    }

    async fn slice(&self, session: &Session) -> Result<Vec<Candidate>> {
        let below = self.last.unwrap_or_else(|| self.filter.highest_id());
        let rows = i64::try_from(self.slice_rows.min(MAX_ROWS - self.rows)).unwrap_or(1);
        let from = self.filter.lowest_id();
        store::search::candidates(session, self.filter.tenant, below, from, rows, SLICE_BYTES).await
    }

    /// Adds the matching jobs. On a blocking thread, because redaction takes time in proportion to the payloads.
    async fn search_slice(&mut self, slice: Vec<Candidate>) {
        let asked = self.slice_rows.min(MAX_ROWS - self.rows);
        let bytes: usize = slice.iter().map(|job| job.payload.len()).sum();
        self.is_at_end = slice.is_empty();
        self.rows += slice.len();
        self.bytes += bytes;
        // A slice that reached its limit of bytes read more rows than it returned, so the next one requests fewer.
        self.slice_rows =
            if slice.len() < asked { (slice.len() * 2).clamp(4, SLICE_ROWS) } else { SLICE_ROWS };
        self.last = slice.last().map(|job| job.id).or(self.last);
        let wanted = self.wanted.clone();
        let matching =
            move || slice.into_iter().filter(|job| wanted.is_in(job)).map(|job| job.id).collect::<Vec<_>>();
        self.found.extend(by_size(bytes, matching).await);
    }

    /// The ids after the offset, and the cursor if there may be more.
    fn page(&self) -> (Vec<Uuid>, Option<Uuid>) {
        let ids =
            self.found.iter().take(self.needed).skip(usize::from(self.filter.offset)).copied().collect();
        let next = if self.found.len() >= self.needed {
            self.found.get(self.needed - 1).copied()
        } else {
            self.last.filter(|_| !self.is_at_end)
        };
        (ids, next)
    }
}
