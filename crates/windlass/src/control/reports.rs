//! Reads for people who look rather than query: how everything stands, why one job waits, what happened over time, how long
//! things take, and what jobs die of. Each costs the same however long the history is: it reads counters, sums made by the
//! keeper, or a bounded sample of the newest.

use jiff::Timestamp;
use uuid::Uuid;

use crate::control::transaction::Looking;
use crate::error::{Error, Result};
use crate::model::actor::Reach;
use crate::model::overview::Overview;
use crate::model::record::Trouble;
use crate::model::report::{self, Activity, DEAD_LETTERS_SEEN, ErrorGroup, Run};
use crate::model::why::{self, Why};
use crate::store;

impl Looking {
    /// How the tenant stands, or everyone, by what this view reaches.
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

    /// What the keeper set aside and what is stored but cannot be used, with the reasons; of the tenant or of all.
    pub async fn troubles(&self) -> Result<Vec<Trouble>> {
        store::trouble::list(&self.session).await
    }

    /// The database's clock.
    pub async fn now(&self) -> Result<Timestamp> {
        store::tenant::now(&self.session).await
    }

    /// Some tenants by name, in its order: those whose ids are given, or the first ones.
    pub async fn tenant_names(&self, ids: Option<&[Uuid]>, most: u16) -> Result<Vec<(Uuid, String)>> {
        store::insight::tenant_names(&self.session, ids, most).await
    }

    /// The jobs that another one asked for when it ended, oldest first.
    pub async fn children(&self, tenant: Uuid, job: Uuid, most: u16) -> Result<Vec<Uuid>> {
        store::insight::children(&self.session, tenant, job, most).await
    }

    /// Sums per queue and span of `seconds` since an instant, oldest first; a span in which nothing was is not there.
    /// Kept for a day, in steps of 15 seconds, as long as a keeper runs.
    pub async fn activity(&self, since: Timestamp, seconds: u32) -> Result<Vec<Activity>> {
        store::insight::activity(&self.session, self.reach.owner(), since, seconds).await
    }

    /// The newest runs of some tenants, at most this many of each, oldest first. A view of one tenant sees only its own.
    pub async fn runs(&self, tenants: &[Uuid], most_of_each: u16) -> Result<Vec<Run>> {
        store::insight::runs(&self.session, tenants, most_of_each).await
    }

    /// The tenant's newest dead letters, gathered by definition and by what they died of, largest group first.
    pub async fn error_groups(&self, tenant: Uuid) -> Result<Vec<ErrorGroup>> {
        let letters = store::insight::dead_letters(&self.session, tenant, DEAD_LETTERS_SEEN).await?;
        Ok(report::gather(letters))
    }
}
