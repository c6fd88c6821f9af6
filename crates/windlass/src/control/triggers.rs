//! Managing triggers: create, edit, delete, run now, backfill, preview and history. Changes are made in the transaction
//! of a caller, [`Acting`], and each operation writes an entry of the audit trail.

mod hidden;
mod merge;
mod payloads;

use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::payload::PayloadRules;
use crate::control::transaction::{Acting, Reading};
use crate::error::{Error, Result};
use crate::model::cron::{DueRun, Schedule};
use crate::model::event::Pending;
use crate::model::record::{Fire, FireOutcome};
use crate::model::trigger::{NewTrigger, Trigger, TriggerType, next_due};
use crate::store;
use crate::store::database::Session;
use crate::store::trigger::{Times, WhichTriggers};
use hidden::shown;
pub(super) use hidden::{hidden, without_hidden_conditions};
pub(super) use payloads::job_of_event;

/// The maximum number of instants of one backfill.
const MAX_BACKFILLED: usize = 1000;
/// The maximum number of instants that one edit records as skipped.
const MAX_MISSED: usize = 10_000;
/// How often an edit is computed. A fire, or an instant that passes, can overtake the first computation; the trigger is
/// locked from then on.
const EDIT_TRIES: usize = 3;
const MAX_PAGE: i64 = 500;
const MAX_PREVIEWED: usize = 1000;
const BUSY: Error = Error::Busy {
    reason: "a backfill or a dry run of the tenant is in progress, and a tenant can have one of them at a time; repeat the backfill later",
};

/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting) -> windlass::Result<()> {
/// use windlass::schedule::NewTrigger;
///
/// let new = NewTrigger::event("thumbnails", "image.uploaded", "resize");
/// let trigger = acting.create_trigger(&new).await?;
/// let changes = serde_json::json!({ "is_enabled": false });
/// let changes = changes.as_object().cloned().unwrap_or_default();
/// acting.update_trigger(trigger.id, Some(trigger.generation), &changes).await?;
/// acting.run_trigger(trigger.id, Some(serde_json::json!({ "image": 7 }))).await?;
/// println!("{:?}", acting.trigger(trigger.id).await?.map(|found| found.generation));
///
/// let now = acting.now().await?;
/// let today = now - jiff::SignedDuration::from_hours(24)..=now;
/// println!("{} instants were missed", acting.backfill(trigger.id, today, true).await?.len());
/// acting.delete_trigger(trigger.id, None).await?;
/// # Ok(())
/// # }
/// ```
impl Acting {
    /// Creates a trigger. A schedule without a time zone gets that of the tenant.
    pub async fn create_trigger(&self, new: &NewTrigger) -> Result<Trigger> {
        let tenant = self.reach.owner();
        let (now, zone) = store::trigger::now(&self.session, tenant).await?;
        let new = with_zone(new.clone(), zone);
        new.check()?;
        hidden::refuse_copied(&new)?;
        let first = first_due(&new, now)?;
        let id = store::trigger::create(&self.session, tenant, &new, first).await?;
        let made = known(&self.session, tenant, id).await.map(shown)?;
        self.was_recorded();
        Ok(made)
    }

    /// One trigger, redacted.
    pub async fn trigger(&self, id: Uuid) -> Result<Option<Trigger>> {
        Ok(one(&self.session, self.reach.owner(), id).await?.map(shown))
    }

    /// Changes fields: a JSON merge patch, in which null resets a field to its default. With `seen`, only if the
    /// trigger still has that generation. Older generations no longer fire. A placeholder in the template keeps the
    /// redacted value, unless the trigger gets another definition that does not redact it: then it is refused.
    pub async fn update_trigger(
        &self,
        id: Uuid,
        seen: Option<i32>,
        changes: &Map<String, Value>,
    ) -> Result<Trigger> {
        let tenant = self.reach.owner();
        for _ in 0..EDIT_TRIES {
            let old = known(&self.session, tenant, id).await?;
            if seen.is_some_and(|seen| seen != old.generation) {
                break;
            }
            let (now, zone) = store::trigger::now(&self.session, tenant).await?;
            let new = with_zone(merge::merged(&old.fields, &hidden::restored(&old, changes)?)?, zone);
            new.check()?;
            if new.definition_key != old.fields.definition_key
                && let Some(redaction) =
                    store::definition::redaction(&self.session, &new.definition_key).await?
            {
                hidden::refuse_unhidden(&old, &new, redaction, changes)?;
            }
            if serde_json::to_value(&new).ok() == serde_json::to_value(&old.fields).ok() {
                self.was_recorded(); // and its generation stays
                return Ok(shown(old));
            }
            let is_same = merge::same_times(&old.fields, &new);
            let times = if is_same {
                Times::Kept
            } else {
                let why = if old.fields.is_enabled && new.is_enabled { "edited" } else { "paused" };
                Times::Changed { next_due: first_due(&new, now)?, missed: undecided(&old, now), why }
            };
            if store::trigger::update(&self.session, &old, &new, times).await? {
                let changed = known(&self.session, tenant, id).await.map(shown)?;
                self.was_recorded();
                return Ok(changed);
            }
        }
        Err(Error::Changed { what: "trigger" })
    }

    /// Deletes a trigger; its history stays visible. With `seen`, only if it still has that generation.
    pub async fn delete_trigger(&self, id: Uuid, seen: Option<i32>) -> Result<()> {
        let tenant = self.reach.owner();
        for _ in 0..EDIT_TRIES {
            let old = known(&self.session, tenant, id).await?;
            if seen.is_some_and(|seen| seen != old.generation) {
                break;
            }
            let (now, _) = store::trigger::now(&self.session, tenant).await?;
            if store::trigger::delete(&self.session, &old, &undecided(&old, now)).await? {
                self.was_recorded();
                return Ok(());
            }
        }
        Err(Error::Changed { what: "trigger" })
    }

    /// Fires a trigger now, paused or not, if its overlap policy allows. `event` is the payload of a simulated event,
    /// for an event trigger.
    pub async fn run_trigger(&self, id: Uuid, event: Option<Value>) -> Result<FireOutcome> {
        let tenant = self.reach.owner();
        let trigger = known(&self.session, tenant, id).await?;
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let rules = PayloadRules::read(&self.session, &trigger.fields.definition_key).await?;
        let payload = match trigger.fields.trigger_type {
            TriggerType::Schedule if event.is_some() => {
                return Err(Error::refused("event", "is only allowed for event triggers"));
            }
            TriggerType::Schedule => payloads::of_instant(&trigger, rules, now).await?,
            TriggerType::Event => {
                let payload = event.unwrap_or_else(|| Value::Object(Map::new()));
                let name = trigger.fields.event_name.clone().unwrap_or_default();
                let (id, emitted_at) = (Uuid::nil(), now);
                let event = Pending { tenant, id, name, payload, emitted_at, after: None };
                job_of_event(&trigger, rules, event).await?.payload_text()?.to_owned()
            }
        };
        let jobs = [self.queue.new_id()];
        let mut made = store::trigger::run(&self.session, &trigger, None, &jobs, &[payload]).await?;
        let fired = made.pop().ok_or(Error::Changed { what: "trigger" })?;
        self.was_recorded();
        Ok(fired)
    }

    /// Fires the instants of a past range that no generation has fired, at most 1000 with at most 8 MiB of payloads. A
    /// dry run only returns them.
    pub async fn backfill(
        &self,
        id: Uuid,
        range: RangeInclusive<Timestamp>,
        dry_run: bool,
    ) -> Result<Vec<FireOutcome>> {
        let (from, until) = range.into_inner();
        let tenant = self.reach.owner();
        let trigger = known(&self.session, tenant, id).await?;
        if trigger.fields.trigger_type != TriggerType::Schedule {
            return Err(Error::refused(
                "trigger_type",
                "must be a schedule: event triggers cannot be backfilled",
            ));
        }
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        if until > now {
            return Err(Error::refused("until", "must not be in the future"));
        }
        let schedule = trigger.fields.parse_schedule()?;
        let dues: Vec<Timestamp> =
            schedule.due_in(just_before(from), until).take(MAX_BACKFILLED + 1).collect();
        if dues.len() > MAX_BACKFILLED {
            let message = format!("the range has more than {MAX_BACKFILLED} instants; choose a shorter one");
            return Err(Error::refused("until", message));
        }
        // Instants outside of the trigger's dates do not fire, and are returned as skipped.
        let (dues, mut made): (Vec<Timestamp>, Vec<FireOutcome>) = apart(&trigger.fields, dues);
        if dry_run {
            made.extend(dues.into_iter().map(|due| outcome(due, "due", None)));
            made.sort_by_key(|fire| fire.due_at);
            return Ok(made);
        }
        let rules = PayloadRules::read(&self.session, &trigger.fields.definition_key).await?;
        let slot = self.queue.dry_runs().take(tenant, 1).ok_or(BUSY)?;
        let payloads = payloads::of_instants(&trigger, rules, dues.clone(), slot).await?;
        // In one statement, so that the backfill has one entry in the audit trail.
        let jobs: Vec<Uuid> = dues.iter().map(|_| self.queue.new_id()).collect();
        made.extend(store::trigger::run(&self.session, &trigger, Some(&dues), &jobs, &payloads).await?);
        self.was_recorded();
        made.sort_by_key(|fire| fire.due_at);
        Ok(made)
    }
}

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// use windlass::schedule::TriggerType;
///
/// for trigger in reading.triggers(Some(TriggerType::Schedule), None, 50, 0).await? {
///     println!("{}: {:?}", trigger.fields.label, reading.preview(trigger.id, 3).await?);
///     println!("{} fires", reading.fires(trigger.id, None, 20).await?.len());
///     assert!(reading.trigger(trigger.id).await?.is_some());
/// }
/// println!("{:?}", reading.preview_schedule("@daily", None, 5).await?);
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// One trigger, redacted; none if the tenant has no trigger with this id.
    pub async fn trigger(&self, id: Uuid) -> Result<Option<Trigger>> {
        Ok(one(&self.session, self.reach.owner(), id).await?.map(shown))
    }

    /// The triggers of a tenant, newest first; with `after`, those after that one.
    pub async fn triggers(
        &self,
        kind: Option<TriggerType>,
        after: Option<Uuid>,
        limit: u16,
        offset: u32,
    ) -> Result<Vec<Trigger>> {
        let triggers = self.whole_triggers(kind, after, limit, offset).await?;
        Ok(triggers.into_iter().map(shown).collect())
    }

    /// The same without redaction.
    pub(super) async fn whole_triggers(
        &self,
        kind: Option<TriggerType>,
        after: Option<Uuid>,
        limit: u16,
        offset: u32,
    ) -> Result<Vec<Trigger>> {
        let limit = i64::from(limit).min(MAX_PAGE);
        let which = WhichTriggers { id: None, kind, after, limit, offset: offset.into() };
        store::trigger::list(&self.session, self.reach.owner(), &which).await
    }

    /// The next runs of a trigger, in its time zone.
    pub async fn preview(&self, id: Uuid, count: usize) -> Result<Vec<DueRun>> {
        let tenant = self.reach.owner();
        let trigger = known(&self.session, tenant, id).await?;
        if trigger.fields.trigger_type != TriggerType::Schedule {
            return Err(Error::refused(
                "trigger_type",
                "must be a schedule: event triggers have no next runs",
            ));
        }
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let after = trigger.fields.starts_at.map_or(now, |starts| now.max(just_before(starts)));
        let mut runs = trigger.fields.parse_schedule()?.preview(after, count.min(MAX_PREVIEWED));
        runs.retain(|run| trigger.fields.ends_at.is_none_or(|ends| run.due_at <= ends));
        Ok(runs)
    }

    /// The next runs of a schedule that is not stored; without a time zone, in that of the tenant.
    pub async fn preview_schedule(
        &self,
        cron_expr: &str,
        timezone: Option<&str>,
        count: usize,
    ) -> Result<Vec<DueRun>> {
        let (now, zone) = store::trigger::now(&self.session, self.reach.owner()).await?;
        let zone = timezone.map(str::to_owned).or(zone).unwrap_or_else(|| "UTC".to_owned());
        Ok(Schedule::new(cron_expr, &zone)?.preview(now, count.min(MAX_PREVIEWED)))
    }

    /// The history of a trigger, newest first: every instant with its outcome and reason, and every matching event.
    pub async fn fires(&self, id: Uuid, before: Option<Timestamp>, limit: u16) -> Result<Vec<Fire>> {
        let limit = i64::from(limit).min(MAX_PAGE);
        let mut fires = store::trigger::fires(&self.session, self.reach.owner(), id, before, limit).await?;
        fires.sort_by_key(|fire| std::cmp::Reverse(fire.due_at));
        fires.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(fires)
    }
}

async fn one(session: &Session, tenant: Uuid, id: Uuid) -> Result<Option<Trigger>> {
    let which = WhichTriggers { id: Some(id), limit: 1, ..WhichTriggers::default() };
    Ok(store::trigger::list(session, tenant, &which).await?.pop())
}

pub(super) async fn known(session: &Session, tenant: Uuid, id: Uuid) -> Result<Trigger> {
    one(session, tenant, id).await?.ok_or(Error::Unknown { what: "trigger" })
}

/// The instants within a trigger's dates, and those outside with the reason why they do not fire.
fn apart(fields: &NewTrigger, dues: Vec<Timestamp>) -> (Vec<Timestamp>, Vec<FireOutcome>) {
    let (mut within, mut outside) = (Vec::new(), Vec::new());
    for due in dues {
        if fields.starts_at.is_some_and(|starts| due < starts) {
            outside.push(outcome(due, "skipped", Some("before_start")));
        } else if fields.ends_at.is_some_and(|ends| due > ends) {
            outside.push(outcome(due, "skipped", Some("after_end")));
        } else {
            within.push(due);
        }
    }
    (within, outside)
}

fn outcome(due_at: Timestamp, outcome: &str, reason: Option<&str>) -> FireOutcome {
    FireOutcome { due_at, outcome: outcome.to_owned(), reason: reason.map(str::to_owned), job_id: None }
}

/// An instant is strictly after its lower bound; this makes the bound inclusive.
fn just_before(instant: Timestamp) -> Timestamp {
    instant.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(instant)
}

fn with_zone(mut trigger: NewTrigger, zone: Option<String>) -> NewTrigger {
    if trigger.trigger_type == TriggerType::Schedule && trigger.timezone.is_none() {
        trigger.timezone = zone;
    }
    trigger
}

fn first_due(trigger: &NewTrigger, now: Timestamp) -> Result<Option<Timestamp>> {
    if trigger.trigger_type == TriggerType::Event {
        return Ok(None);
    }
    Ok(next_due(trigger, &trigger.parse_schedule()?, now))
}

/// The instants that have passed and that no scheduler has processed: they are recorded as skipped when the trigger's
/// times change. Of a longer backlog (a week of minutes without any scheduler), only the first ones are recorded.
fn undecided(trigger: &Trigger, now: Timestamp) -> Vec<Timestamp> {
    let Some(from) = trigger.undecided_from.filter(|from| *from <= now) else { return Vec::new() };
    let until = trigger.fields.ends_at.map_or(now, |ends| ends.min(now));
    let further: Vec<Timestamp> = match trigger.fields.parse_schedule() {
        Ok(schedule) => schedule.due_in(from, until).take(MAX_MISSED - 1).collect(),
        // This machine does not know the time zone: only the first instant is known, from the row.
        Err(_) => Vec::new(),
    };
    std::iter::once(from).chain(further).collect()
}
