//! Retention: the rules of a tenant, legal holds, and the progress of deletion.

use std::time::Duration;

use uuid::Uuid;

use crate::control::transaction::{Acting, Reading};
use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::record::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};
use crate::queue::Queue;
use crate::store;
use crate::text;

const MAX_WAITS: i64 = 500;
const MAX_REASON: usize = 500;
/// About a hundred years; for longer, use forever.
const MAX_KEPT: u64 = 3_162_240_000;
/// The status of the rule for events.
const EVENTS: &str = "event";

/// What a hold protects.
///
/// ```
/// use windlass::retention::HoldOn;
///
/// let customer = HoldOn::Subject { kind: "customer".to_owned(), id: "7".to_owned() };
/// assert_ne!(customer, HoldOn::Tenant);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldOn {
    /// One job.
    Job(Uuid),
    /// Every job of a subject, including future ones.
    Subject {
        /// The type of the entity.
        kind: String,
        /// The id of the entity.
        id: String,
    },
    /// All data of the tenant.
    Tenant,
}

/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting) -> windlass::Result<()> {
/// use std::time::Duration;
/// use windlass::job::State;
/// use windlass::retention::HoldOn;
///
/// let month = Some(Duration::from_secs(30 * 86_400));
/// acting.set_retention(Some("report.build"), State::Succeeded, month).await?;
/// acting.set_event_retention(month).await?;
/// acting.set_retention_by_name(None, "dead_letter", None).await?;
/// acting.clear_retention(Some("report.build"), "succeeded").await?;
///
/// let hold = acting.hold(&HoldOn::Tenant, "lawsuit 12").await?;
/// acting.release(hold.id).await?;
/// # Ok(())
/// # }
/// ```
impl Acting {
    /// Sets a rule of the tenant for jobs that ended with this status, of one definition or of all (`None`). It takes
    /// precedence over the rules of the definitions. `keep` of none means forever.
    pub async fn set_retention(
        &self,
        definition: Option<&str>,
        status: State,
        keep: Option<Duration>,
    ) -> Result<()> {
        if !status.is_terminal() {
            return Err(Error::refused("status", "must be a terminal status"));
        }
        self.set_retention_by_name(definition, status.as_str(), keep).await.map(drop)
    }

    /// Sets how long the events of the tenant are kept, instead of 30 days.
    pub async fn set_event_retention(&self, keep: Option<Duration>) -> Result<()> {
        self.set_retention_by_name(None, EVENTS, keep).await.map(drop)
    }

    /// Sets either of the two by name: a terminal status, or `event`.
    pub async fn set_retention_by_name(
        &self,
        definition: Option<&str>,
        status: &str,
        keep: Option<Duration>,
    ) -> Result<RetentionRule> {
        let key = checked_rule(definition, status)?;
        if keep.is_some_and(|keep| keep.as_secs() > MAX_KEPT) {
            return Err(Error::refused(
                "keep_seconds",
                format!("must be at most {MAX_KEPT}; null keeps forever"),
            ));
        }
        let keep_seconds = keep.and_then(|keep| i64::try_from(keep.as_secs()).ok());
        store::retention::set(&self.session, self.reach.owner(), key, status, Some(keep_seconds)).await?;
        self.was_recorded();
        Ok(RetentionRule { definition_key: key.to_owned(), status: status.to_owned(), keep_seconds })
    }

    /// Removes a rule of the tenant; `status` is a terminal one or `event`.
    pub async fn clear_retention(&self, definition: Option<&str>, status: &str) -> Result<()> {
        let key = checked_rule(definition, status)?;
        if !store::retention::set(&self.session, self.reach.owner(), key, status, None).await? {
            return Err(Error::Unknown { what: "rule" });
        }
        self.was_recorded();
        Ok(())
    }

    /// Protects jobs from deletion, by retention or by request, until the hold is released.
    pub async fn hold(&self, what: &HoldOn, reason: &str) -> Result<LegalHold> {
        let reason = reason.trim();
        if reason.is_empty() {
            return Err(Error::refused("reason", "is required"));
        }
        let reason = text::storable(reason.as_bytes(), MAX_REASON);
        let (job, subject) = match what {
            HoldOn::Job(job) => (Some(*job), None),
            HoldOn::Subject { kind, id } => {
                if [kind, id].iter().any(|text| !(1..=500).contains(&text.len()) || text.contains('\0')) {
                    return Err(Error::refused(
                        "subject",
                        "must have a type and an id of 1 to 500 bytes each",
                    ));
                }
                (None, Some((kind.as_str(), id.as_str())))
            }
            HoldOn::Tenant => (None, None),
        };
        let by = &self.actor.name;
        let id = store::retention::place_hold(&self.session, self.reach.owner(), job, subject, &reason, by)
            .await?;
        // A hold on a job that does not exist would give false safety. Checked after the hold is placed, because
        // nothing can be deleted from then on.
        if let Some(job) = job
            && self.job(job).await?.is_none()
        {
            return Err(Error::Unknown { what: "job" });
        }
        let hold = self.known_hold(id).await?;
        self.was_recorded();
        Ok(hold)
    }

    /// Releases a hold; the retention rules apply again.
    pub async fn release(&self, hold: Uuid) -> Result<LegalHold> {
        let held = self.known_hold(hold).await?;
        if !store::retention::release_hold(&self.session, self.reach.owner(), hold).await? {
            return Err(Error::Unknown { what: "hold" });
        }
        self.was_recorded();
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
        return Err(Error::refused("definition_key", "must be omitted: events have no definition"));
    }
    if key.is_empty() || key.len() > 200 || key.contains('\0') {
        return Err(Error::refused("definition_key", "must have 1 to 200 bytes"));
    }
    Ok(key)
}

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for rule in reading.retention().await? {
///     println!("{} {}: {:?} s", rule.definition_key, rule.status, rule.keep_seconds);
/// }
/// for progress in reading.retention_progress().await? {
///     println!("{} {}: {:?} s behind", progress.definition_key, progress.status, progress.behind_seconds);
/// }
/// println!("{} holds, {} jobs wait", reading.holds().await?.len(), reading.purge_waits().await?.len());
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// The progress of the rules that apply to the tenant: its own, and those of its definitions.
    pub async fn retention_progress(&self) -> Result<Vec<RetentionProgress>> {
        store::retention::progress_in(&self.session).await
    }

    /// The rules of the tenant.
    pub async fn retention(&self) -> Result<Vec<RetentionRule>> {
        store::retention::rules(&self.session, self.reach.owner()).await
    }

    /// Returns the legal holds.
    pub async fn holds(&self) -> Result<Vec<LegalHold>> {
        store::retention::holds(&self.session, self.reach.owner(), None).await
    }

    /// Expired jobs that wait until their artifact is deleted.
    pub async fn purge_waits(&self) -> Result<Vec<PurgeWait>> {
        store::retention::waits(&self.session, self.reach.owner(), MAX_WAITS).await
    }
}

/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use std::time::Duration;
/// use windlass::DEFAULT_TENANT;
/// use windlass::job::State;
/// use windlass::retention::HoldOn;
///
/// let week = Some(Duration::from_secs(7 * 86_400));
/// queue.set_retention(DEFAULT_TENANT, None, State::Succeeded, week, "deploy").await?;
/// let hold = queue.hold(DEFAULT_TENANT, &HoldOn::Tenant, "lawsuit 12", "legal").await?;
/// queue.release(DEFAULT_TENANT, hold, "legal").await?;
/// for rule in queue.retention_progress().await? {
///     println!("{}: {} deleted", rule.status, rule.purged.unwrap_or_default());
/// }
/// # Ok(())
/// # }
/// ```
impl Queue {
    /// See [`Acting::set_retention`].
    pub async fn set_retention(
        &self,
        tenant: Uuid,
        definition: Option<&str>,
        status: State,
        keep: Option<Duration>,
        actor: &str,
    ) -> Result<()> {
        let acting = self.acting(tenant, actor).await?;
        acting.set_retention(definition, status, keep).await?;
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

    /// The progress of every rule.
    pub async fn retention_progress(&self) -> Result<Vec<RetentionProgress>> {
        store::retention::progress(self.database()).await
    }
}
