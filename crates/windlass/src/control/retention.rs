//! How long what is finished is kept: a tenant's own rules, legal holds, and how far pruning has come.

use std::time::Duration;

use uuid::Uuid;

use crate::control::transaction::{Acting, Looking};
use crate::error::{Error, Result};
use crate::model::audit::{Act, Action};
use crate::model::job::state::State;
use crate::model::record::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};
use crate::queue::Queue;
use crate::store;
use crate::text;

const MOST_WAITS: i64 = 500;
const LONGEST_REASON: usize = 500;
/// A hundred years; whoever means longer means forever.
const LONGEST_KEPT: u64 = 3_162_240_000;
/// The rules of a tenant that are not about jobs.
const EVENTS: &str = "event";

/// What a hold keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldOn {
    /// One job.
    Job(Uuid),
    /// Every job of a subject, those to come included.
    Subject {
        /// The type of the entity.
        kind: String,
        /// The id of the entity.
        id: String,
    },
    /// Everything of the tenant.
    Tenant,
}

impl Acting {
    /// A rule of the tenant's own for jobs that ended so, of one definition or of all (`None`). Comes before what the
    /// definitions say. `keep` none is forever.
    pub async fn keep(&self, definition: Option<&str>, status: State, keep: Option<Duration>) -> Result<()> {
        if !status.is_terminal() {
            return Err(Error::refused("status", "must be one in which a job has ended"));
        }
        self.keep_by_name(definition, status.as_str(), keep).await.map(drop)
    }

    /// How long the tenant's events are kept, instead of 30 days.
    pub async fn keep_events(&self, keep: Option<Duration>) -> Result<()> {
        self.keep_by_name(None, EVENTS, keep).await.map(drop)
    }

    /// Either of the two by its name: a status in which a job has ended, or `event`.
    pub async fn keep_by_name(
        &self,
        definition: Option<&str>,
        status: &str,
        keep: Option<Duration>,
    ) -> Result<RetentionRule> {
        let key = checked_rule(definition, status)?;
        if keep.is_some_and(|keep| keep.as_secs() > LONGEST_KEPT) {
            return Err(Error::refused(
                "keep_seconds",
                format!("is at most {LONGEST_KEPT}; null is forever"),
            ));
        }
        let keep_seconds = keep.and_then(|keep| i64::try_from(keep.as_secs()).ok());
        let before = self.own_rule(key, status).await?;
        store::retention::set(&self.session, self.reach.owner(), key, status, Some(keep_seconds)).await?;
        let rule = RetentionRule { definition_key: key.to_owned(), status: status.to_owned(), keep_seconds };
        self.record(Act::new(Action::RetentionSet, key).before(&before).after(&rule)).await?;
        Ok(rule)
    }

    /// Takes a rule of the tenant's own away; `status` is a terminal one or `event`.
    pub async fn forget_rule(&self, definition: Option<&str>, status: &str) -> Result<()> {
        let key = checked_rule(definition, status)?;
        let before = self.own_rule(key, status).await?;
        if !store::retention::set(&self.session, self.reach.owner(), key, status, None).await? {
            return Err(Error::Unknown { what: "rule" });
        }
        self.record(Act::new(Action::RetentionClear, key).before(&before)).await
    }

    async fn own_rule(&self, key: &str, status: &str) -> Result<Option<RetentionRule>> {
        let rules = store::retention::rules(&self.session, self.reach.owner()).await?;
        Ok(rules.into_iter().find(|rule| rule.definition_key == key && rule.status == status))
    }

    /// Keeps something from being deleted, by retention and by hand, until the hold is released.
    pub async fn hold(&self, what: &HoldOn, reason: &str) -> Result<LegalHold> {
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
        let id = store::retention::place_hold(&self.session, self.reach.owner(), job, subject, &reason, by)
            .await?;
        // A hold on nothing would be believed in; seen after it is placed, because nothing is deleted from then on.
        if let Some(job) = job
            && self.job(job).await?.is_none()
        {
            return Err(Error::Unknown { what: "job" });
        }
        let hold = self.known_hold(id).await?;
        self.record(Act::new(Action::HoldPlace, id).after(&hold)).await?;
        Ok(hold)
    }

    /// Ends a hold; what it kept goes as its retention says.
    pub async fn release(&self, hold: Uuid) -> Result<LegalHold> {
        let held = self.known_hold(hold).await?;
        if !store::retention::release_hold(&self.session, self.reach.owner(), hold).await? {
            return Err(Error::Unknown { what: "hold" });
        }
        self.record(Act::new(Action::HoldRelease, hold).before(&held)).await?;
        Ok(held)
    }

    async fn known_hold(&self, id: Uuid) -> Result<LegalHold> {
        let mut found = store::retention::holds(&self.session, self.reach.owner(), Some(id)).await?;
        found.pop().ok_or(Error::Unknown { what: "hold" })
    }
}

/// The key under which the rule is stored.
fn checked_rule<'a>(definition: Option<&'a str>, status: &str) -> Result<&'a str> {
    let ended = State::ALL.into_iter().filter(|state| state.is_terminal()).map(State::as_str);
    if !ended.chain([EVENTS]).any(|known| known == status) {
        let message = "must be succeeded, failed, dead_letter, canceled or event";
        return Err(Error::refused("status", message));
    }
    let key = definition.unwrap_or("*");
    if status == EVENTS && key != "*" {
        return Err(Error::refused("definition_key", "must be left out: events are of no definition"));
    }
    if key.is_empty() || key.len() > 200 || key.contains('\0') {
        return Err(Error::refused("definition_key", "must have 1 to 200 bytes"));
    }
    Ok(key)
}

impl Looking {
    /// How far the rules have come that concern the tenant: its own, and its definitions'.
    pub async fn retention_progress(&self) -> Result<Vec<RetentionProgress>> {
        store::retention::progress_in(&self.session).await
    }

    /// The tenant's own rules.
    pub async fn retention(&self) -> Result<Vec<RetentionRule>> {
        store::retention::rules(&self.session, self.reach.owner()).await
    }

    /// Returns the legal holds.
    pub async fn holds(&self) -> Result<Vec<LegalHold>> {
        store::retention::holds(&self.session, self.reach.owner(), None).await
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
        acting.commit().await
    }

    /// See [`Acting::hold`].
    pub async fn hold(&self, tenant: Uuid, what: &HoldOn, reason: &str, actor: &str) -> Result<Uuid> {
        let acting = self.acting(tenant, actor).await?;
        let hold = acting.hold(what, reason).await?;
        acting.commit().await?;
        Ok(hold.id)
    }

    /// See [`Acting::release`].
    pub async fn release(&self, tenant: Uuid, hold: Uuid, actor: &str) -> Result<()> {
        let acting = self.acting(tenant, actor).await?;
        acting.release(hold).await?;
        acting.commit().await
    }

    /// How far every rule has come.
    pub async fn retention_progress(&self) -> Result<Vec<RetentionProgress>> {
        store::retention::progress(self.database()).await
    }
}
