//! Reports: the current state of everything, why one job is waiting, activity over time, durations, and the errors of
//! dead letters. The cost of each is independent of the length of the history: it reads counters, sums computed by the
//! keeper, or a limited sample of the newest rows.

use jiff::Timestamp;
use uuid::Uuid;

use crate::control::transaction::Reading;
use crate::error::{Error, Result};
use crate::model::actor::Reach;
use crate::model::overview::Overview;
use crate::model::record::Problem;
use crate::model::report::{self, Activity, DEAD_LETTERS_SEEN, ErrorGroup, Run};
use crate::model::why::{self, Why};
use crate::store;

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading, job: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::DEFAULT_TENANT;
///
/// let overview = reading.overview().await?;
/// println!("{} queued, {} running", overview.all.queued, overview.all.running);
/// println!("{} waits: {}", job, reading.why(job).await?.reason.message);
/// println!("it enqueued {} jobs", reading.children(DEFAULT_TENANT, job, 100).await?.len());
///
/// let an_hour_ago = reading.now().await? - jiff::SignedDuration::from_hours(1);
/// for span in reading.activity(an_hour_ago, 60).await? {
///     println!("{} {}: {} succeeded", span.from, span.queue, span.succeeded);
/// }
/// for run in reading.runs(&[DEFAULT_TENANT], 100).await? {
///     println!("{} ran for {:?} s", run.job_id, run.lasted());
/// }
/// for group in reading.error_groups(DEFAULT_TENANT).await? {
///     println!("{} dead letters: {}", group.jobs.len(), group.example);
/// }
/// for problem in reading.problems().await? {
///     println!("{}: {}", problem.subject, problem.reason);
/// }
/// println!("{:?}", reading.tenant_names(None, 10).await?);
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// The job counts of the tenant, or of all tenants, depending on the reach.
    pub async fn overview(&self) -> Result<Overview> {
        let tenant = self.reach.tenant();
        let mut overview = Overview::default();
        for counts in store::list::counts_in(&self.session, tenant).await? {
            overview.all.add(&counts);
            overview.tenants.entry(counts.tenant_id).or_default().add(&counts);
            overview.queues.entry(counts.queue.clone()).or_default().add(&counts);
            *overview.enqueued.entry(counts.definition_key.clone()).or_default() += counts.enqueued();
            overview.definitions.entry(counts.definition_key.clone()).or_default().add(&counts);
            overview.counts.push(counts);
        }
        let now = store::tenant::now(&self.session).await?;
        for (tenant, queue, since) in store::overview::oldest(&self.session, tenant).await? {
            overview.all.waiting_since(since, now);
            overview.tenants.entry(tenant).or_default().waiting_since(since, now);
            overview.queues.entry(queue).or_default().waiting_since(since, now);
        }
        Ok(overview)
    }

    /// Why a job of the tenant is not running.
    pub async fn why(&self, job: Uuid) -> Result<Why> {
        let Reach::Tenant(tenant) = self.reach else { return Err(Error::UnknownJob { job }) };
        let facts = store::overview::why(&self.session, tenant, job).await?;
        facts.as_ref().map(why::explain).ok_or(Error::UnknownJob { job })
    }

    /// The rows that the keeper set aside and stored rows that cannot be used, with the reasons; of the tenant or of
    /// all.
    pub async fn problems(&self) -> Result<Vec<Problem>> {
        store::problem::list(&self.session).await
    }

    /// The time of the database.
    pub async fn now(&self) -> Result<Timestamp> {
        store::tenant::now(&self.session).await
    }

    /// The names of tenants, ordered by name: of the given ids, or the first ones.
    pub async fn tenant_names(&self, ids: Option<&[Uuid]>, most: u16) -> Result<Vec<(Uuid, String)>> {
        store::insight::tenant_names(&self.session, ids, most).await
    }

    /// The jobs that a job enqueued when it completed, oldest first.
    pub async fn children(&self, tenant: Uuid, job: Uuid, most: u16) -> Result<Vec<Uuid>> {
        store::insight::children(&self.session, tenant, job, most).await
    }

    /// Sums per queue and span of `seconds` since an instant, oldest first; spans without activity are omitted. They
    /// are kept for a day, in steps of 15 seconds, while a keeper runs.
    pub async fn activity(&self, since: Timestamp, seconds: u32) -> Result<Vec<Activity>> {
        store::insight::activity(&self.session, self.reach.owner(), since, seconds).await
    }

    /// The newest runs of some tenants, at most this many of each, oldest first. Within the reach of one tenant, only
    /// its own are returned.
    pub async fn runs(&self, tenants: &[Uuid], most_of_each: u16) -> Result<Vec<Run>> {
        store::insight::runs(&self.session, tenants, most_of_each).await
    }

    /// The newest dead letters of the tenant, grouped by definition and error, largest group first.
    pub async fn error_groups(&self, tenant: Uuid) -> Result<Vec<ErrorGroup>> {
        let letters = store::insight::dead_letters(&self.session, tenant, DEAD_LETTERS_SEEN).await?;
        Ok(report::gather(letters))
    }
}
