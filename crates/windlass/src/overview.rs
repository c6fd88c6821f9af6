//! How a tenant, or all of them, stand: counts from counters, the oldest wait, and why one job waits. None of it costs by the
//! number of jobs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::act::{Looking, Reach};
use crate::error::{Error, Result};
use crate::job::state::State;
use crate::record::Counts;
use crate::store;
use crate::why::{self, Why};

/// Jobs by status, and how long the oldest has waited.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    pub queued: i64,
    pub running: i64,
    pub scheduled: i64,
    pub blocked: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub dead_letter: i64,
    pub canceled: i64,
    /// How long the job that has been queued longest could have run; none, if none is queued.
    pub oldest_queued_age_seconds: Option<f64>,
}

impl Summary {
    pub fn of(&self, state: State) -> i64 {
        match state {
            State::Queued => self.queued,
            State::Running => self.running,
            State::Scheduled => self.scheduled,
            State::Blocked => self.blocked,
            State::Succeeded => self.succeeded,
            State::Failed => self.failed,
            State::DeadLetter => self.dead_letter,
            State::Canceled => self.canceled,
        }
    }

    /// Takes in another part: the jobs of both, and the longer wait.
    pub fn merge(&mut self, part: &Self) {
        self.queued += part.queued;
        self.running += part.running;
        self.scheduled += part.scheduled;
        self.blocked += part.blocked;
        self.succeeded += part.succeeded;
        self.failed += part.failed;
        self.dead_letter += part.dead_letter;
        self.canceled += part.canceled;
        let ages = [self.oldest_queued_age_seconds, part.oldest_queued_age_seconds];
        self.oldest_queued_age_seconds = ages.into_iter().flatten().reduce(f64::max);
    }

    fn add(&mut self, counts: &Counts) {
        self.queued += counts.queued;
        self.running += counts.running;
        self.scheduled += counts.scheduled;
        self.blocked += counts.blocked;
        self.succeeded += counts.succeeded;
        self.failed += counts.failed;
        self.dead_letter += counts.dead_letter;
        self.canceled += counts.canceled;
    }

    fn waiting_since(&mut self, since: Timestamp, now: Timestamp) {
        let age = (now.duration_since(since).as_secs_f64() * 1000.0).round() / 1000.0;
        let oldest = self.oldest_queued_age_seconds.get_or_insert(0.0);
        *oldest = oldest.max(age);
    }
}

/// The whole, and its parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Overview {
    /// What it is made from, for those who need other sums.
    #[serde(skip)]
    pub counts: Vec<Counts>,
    pub all: Summary,
    pub tenants: BTreeMap<Uuid, Summary>,
    pub queues: BTreeMap<String, Summary>,
    pub definitions: BTreeMap<String, Summary>,
    /// All that ever came in through any door, by definition. Falls only when a tenant is deleted.
    #[serde(skip)]
    pub enqueued: BTreeMap<String, i64>,
}

impl Overview {
    /// The tenants with most work, those that have most to do first and those that have done most after them.
    pub fn busiest(&self) -> Vec<(Uuid, &Summary)> {
        let mut tenants: Vec<(Uuid, &Summary)> =
            self.tenants.iter().map(|(id, summary)| (*id, summary)).collect();
        tenants.sort_by_key(|(_, summary)| {
            let ended = summary.succeeded + summary.failed + summary.dead_letter;
            std::cmp::Reverse((summary.queued + summary.running, summary.dead_letter + summary.failed, ended))
        });
        tenants
    }
}

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
}
