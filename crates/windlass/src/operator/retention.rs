//! How long what is finished is kept: a tenant's own rules, legal holds, and how far pruning has come.

use std::time::Duration;

use uuid::Uuid;

use crate::act::{Acting, Looking};
use crate::audit::Act;
use crate::error::{Error, Result};
use crate::job::state::State;
use crate::queue::Queue;
use crate::record::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};
use crate::store;
use crate::text;

const MOST_WAITS: i64 = 500;
const LONGEST_REASON: usize = 500;

/// What a hold keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldOn {
    Job(Uuid),
    /// Every job of a subject, those to come included.
    Subject {
        kind: String,
        id: String,
    },
    /// Everything of the tenant.
    Tenant,
}

impl Acting {
    /// A rule of the tenant's own for jobs that ended so, of one definition or of all (`None`). Comes before what the
    /// definitions say. `keep` none is for ever.
    pub async fn keep(&self, definition: Option<&str>, status: State, keep: Option<Duration>) -> Result<()> {
        if !status.is_terminal() {
            return Err(Error::refused("status", "must be one in which a job has ended"));
        }
        self.set_retention(definition.unwrap_or("*"), status.as_str(), Some(keep)).await
    }

    /// How long the tenant's events are kept, instead of 30 days.
    pub async fn keep_events(&self, keep: Option<Duration>) -> Result<()> {
        self.set_retention("*", "event", Some(keep)).await
    }

    /// Takes a rule of the tenant's own away; `status` is a terminal one or `event`.
    pub async fn forget_rule(&self, definition: Option<&str>, status: &str) -> Result<()> {
        self.set_retention(definition.unwrap_or("*"), status, None).await
    }

    async fn set_retention(&self, key: &str, status: &str, keep: Option<Option<Duration>>) -> Result<()> {
        let seconds = |keep: Duration| i64::try_from(keep.as_secs()).unwrap_or(i64::MAX);
        let keep = keep.map(|keep| keep.map(seconds));
        store::retention::set(&self.session, self.reach.owner(), key, status, keep).await
    }

    /// Keeps something from being deleted, by retention and by hand, until the hold is released.
    pub async fn hold(&self, what: &HoldOn, reason: &str) -> Result<Uuid> {
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(Error::refused("reason", "must say why it is kept"));
        }
        let reason = text::storable(reason.as_bytes(), LONGEST_REASON);
        let (job, subject) = match what {
            HoldOn::Job(job) => (Some(*job), None),
            HoldOn::Subject { kind, id } => {
                if [kind, id].iter().any(|text| !(1..=500).contains(&text.len()) || text.contains('\0')) {
                    return Err(Error::refused("subject", "must have a kind and an id of 1 to 500 bytes"));
                }
                (None, Some((kind.as_str(), id.as_str())))
            }
            HoldOn::Tenant => (None, None),
        };
        let by = &self.actor.name;
        store::retention::place_hold(&self.session, self.reach.owner(), job, subject, &reason, by).await
    }

    /// Ends a hold; what it kept goes as its retention says.
    pub async fn release(&self, hold: Uuid) -> Result<()> {
        match store::retention::release_hold(&self.session, self.reach.owner(), hold).await? {
            true => Ok(()),
            false => Err(Error::Unknown { what: "hold" }),
        }
    }
}

impl Looking {
    /// The tenant's own rules.
    pub async fn retention(&self) -> Result<Vec<RetentionRule>> {
        store::retention::rules(&self.session, self.reach.owner()).await
    }

    pub async fn holds(&self) -> Result<Vec<LegalHold>> {
        store::retention::holds(&self.session, self.reach.owner()).await
    }

    /// Jobs past their retention that wait for their artifact to be removed.
    pub async fn purge_waits(&self) -> Result<Vec<PurgeWait>> {
        store::retention::waits(&self.session, self.reach.owner(), MOST_WAITS).await
    }
}

impl Queue {
    /// See [`Acting::keep`].
    pub async fn keep(
        &self,
        tenant: Uuid,
        definition: Option<&str>,
        status: State,
        keep: Option<Duration>,
        actor: &str,
    ) -> Result<()> {
        let acting = self.acting(tenant, actor).await?;
        acting.keep(definition, status, keep).await?;
        acting.commit(&Act::new("retention.set", definition.unwrap_or("*")).after(&status.as_str())).await
    }

    /// See [`Acting::hold`].
    pub async fn hold(&self, tenant: Uuid, what: &HoldOn, reason: &str, actor: &str) -> Result<Uuid> {
        let acting = self.acting(tenant, actor).await?;
        let hold = acting.hold(what, reason).await?;
        acting.commit(&Act::new("hold.place", hold)).await?;
        Ok(hold)
    }

    /// See [`Acting::release`].
    pub async fn release(&self, tenant: Uuid, hold: Uuid, actor: &str) -> Result<()> {
        let acting = self.acting(tenant, actor).await?;
        acting.release(hold).await?;
        acting.commit(&Act::new("hold.release", hold)).await
    }

    /// How far every rule has come.
    pub async fn retention_progress(&self) -> Result<Vec<RetentionProgress>> {
        store::retention::progress(self.database()).await
    }
}
