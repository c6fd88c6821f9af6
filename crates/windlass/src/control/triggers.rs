//! Managing triggers: create, edit, delete, run now, backfill, look ahead and look back. Whoever changes something does so
//! in a transaction of a caller, [`Acting`], and each verb writes its row of the audit trail.

mod hidden;
mod merge;

use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::payload::PayloadRules;
use crate::control::transaction::{Acting, Looking};
use crate::error::{Error, Result};
use crate::model::audit::{Act, Action};
use crate::model::cron::{DueRun, Schedule};
use crate::model::event::Pending;
use crate::model::new_job::NewJob;
use crate::model::record::{Fire, FireOutcome};
use crate::model::trigger::{self, NewTrigger, Trigger, TriggerType, next_due};
use crate::store;
use crate::store::database::Session;
use crate::store::trigger::{Times, WhichTriggers};
pub(super) use hidden::hidden;
use hidden::shown;

/// Instants that one backfill may have.
const MOST_BACKFILLED: usize = 1000;
/// Instants that one edit tells as left out.
const MOST_MISSED: usize = 10_000;
const LARGEST_PAGE: i64 = 500;
const MOST_PREVIEWED: usize = 1000;

impl Acting {
    /// Makes a trigger. A schedule without a zone gets the tenant's.
    pub async fn create_trigger(&self, new: &NewTrigger) -> Result<Trigger> {
        let tenant = self.reach.owner();
        let (now, zone) = store::trigger::now(&self.session, tenant).await?;
        let new = with_zone(new.clone(), zone);
        new.check()?;
        hidden::refuse_copied(&new)?;
        let first = first_due(&new, now)?;
        let id = store::trigger::create(&self.session, tenant, &new, first).await?;
        let made = known(&self.session, tenant, id).await.map(shown)?;
        self.record(Act::new(Action::TriggerCreate, id).after(&made)).await?;
        Ok(made)
    }

    /// One trigger as others see it.
    pub async fn trigger(&self, id: Uuid) -> Result<Option<Trigger>> {
        Ok(one(&self.session, self.reach.owner(), id).await?.map(shown))
    }

    /// Changes some fields: a JSON merge of what is given over what is there, null for the default. With `seen` only if
    /// the trigger is still of that generation. Nothing of an older generation fires after this. A placeholder that was
    /// shown in the template keeps the text that it stands for.
    pub async fn update_trigger(
        &self,
        id: Uuid,
        seen: Option<i32>,
        changes: &Map<String, Value>,
    ) -> Result<Trigger> {
        let tenant = self.reach.owner();
        let old = known(&self.session, tenant, id).await?;
        if seen.is_some_and(|seen| seen != old.generation) {
            return Err(Error::Changed { what: "trigger" });
        }
        let (now, zone) = store::trigger::now(&self.session, tenant).await?;
        let new = with_zone(merge::merged(&old.fields, &hidden::restored(&old, changes)?)?, zone);
        new.check()?;
        let is_same = merge::same_times(&old.fields, &new);
        let times = if is_same {
            Times::Kept
        } else {
            let why = if old.fields.is_enabled && new.is_enabled { "edited" } else { "paused" };
            Times::Changed { next_due: first_due(&new, now)?, missed: undecided(&old, now), why }
        };
        if !store::trigger::update(&self.session, &old, &new, times).await? {
            return Err(Error::Changed { what: "trigger" });
        }
        let changed = known(&self.session, tenant, id).await.map(shown)?;
        self.record(Act::new(Action::TriggerUpdate, id).before(&shown(old)).after(&changed)).await?;
        Ok(changed)
    }

    /// Deletes a trigger; what it did stays to be seen. With `seen` only if it is still of that generation.
    pub async fn delete_trigger(&self, id: Uuid, seen: Option<i32>) -> Result<()> {
        let tenant = self.reach.owner();
        let old = known(&self.session, tenant, id).await?;
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let is_as_seen = seen.is_none_or(|seen| seen == old.generation);
        if !is_as_seen || !store::trigger::delete(&self.session, &old, &undecided(&old, now)).await? {
            return Err(Error::Changed { what: "trigger" });
        }
        self.record(Act::new(Action::TriggerDelete, id).before(&shown(old))).await
    }

    /// Fires a trigger now, paused or not, as far as its overlap policy allows. One that waits for events is given
    /// the payload of an event that did not happen.
    pub async fn run_trigger(&self, id: Uuid, event: Option<Value>) -> Result<FireOutcome> {
        let tenant = self.reach.owner();
        let trigger = known(&self.session, tenant, id).await?;
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let payload = match trigger.fields.trigger_type {
            TriggerType::Schedule if event.is_some() => {
                return Err(Error::refused("event", "is only for a trigger that waits for events"));
            }
            TriggerType::Schedule => trigger::rendered(&trigger, now)?,
            TriggerType::Event => {
                let payload = event.unwrap_or_else(|| Value::Object(Map::new()));
                let name = trigger.fields.event_name.clone().unwrap_or_default();
                let (id, emitted_at) = (Uuid::nil(), now);
                let event = Pending { tenant, id, name, payload, emitted_at, after: None };
                trigger::render(&trigger, &event)?
            }
        };
        let rules = PayloadRules::read(&self.session, &trigger.fields.definition_key).await?;
        let payload = checked_payload(&rules, &trigger, &payload)?;
        let jobs = [self.queue.new_id()];
        let mut made = store::trigger::run(&self.session, &trigger, None, &jobs, &[payload]).await?;
        let fired = made.pop().ok_or(Error::Changed { what: "trigger" })?;
        self.record(Act::new(Action::TriggerRun, id).after(&fired)).await?;
        Ok(fired)
    }

    /// Fires the instants of a past range that no generation has fired, at most 1000. A dry run only names them.
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
            return Err(Error::refused("trigger_type", "only a schedule can be backfilled"));
        }
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        if until > now {
            return Err(Error::refused("until", "must not be in the future"));
        }
        let schedule = trigger.fields.parse_schedule()?;
        let dues: Vec<Timestamp> =
            schedule.due_in(just_before(from), until).take(MOST_BACKFILLED + 1).collect();
        if dues.len() > MOST_BACKFILLED {
            let message =
                format!("is more than {MOST_BACKFILLED} instants after `from`; choose a shorter range");
            return Err(Error::refused("until", message));
        }
        // What lies outside of the trigger's dates is no run of it, and is answered so.
        let (dues, mut made): (Vec<Timestamp>, Vec<FireOutcome>) = apart(&trigger.fields, dues);
        if dry_run {
            made.extend(dues.into_iter().map(|due| outcome(due, "due", None)));
            made.sort_by_key(|fire| fire.due_at);
            return Ok(made);
        }
        let rules = PayloadRules::read(&self.session, &trigger.fields.definition_key).await?;
        let mut payloads = Vec::with_capacity(dues.len());
        for due in &dues {
            let payload = trigger::rendered(&trigger, *due)?;
            payloads.push(checked_payload(&rules, &trigger, &payload)?);
        }
        let jobs: Vec<Uuid> = dues.iter().map(|_| self.queue.new_id()).collect();
        made.extend(store::trigger::run(&self.session, &trigger, Some(&dues), &jobs, &payloads).await?);
        made.sort_by_key(|fire| fire.due_at);
        let after = json!({"from": from, "until": until, "instants": made.len()});
        self.record(Act::new(Action::TriggerBackfill, id).after(&after)).await?;
        Ok(made)
    }
}

impl Looking {
    /// One trigger as others see it, or nothing if the tenant has none with this id.
    pub async fn trigger(&self, id: Uuid) -> Result<Option<Trigger>> {
        Ok(one(&self.session, self.reach.owner(), id).await?.map(shown))
    }

    /// A tenant's triggers, newest first; those after the one named, for the next page.
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

    /// The same with what is hidden from others.
    pub(super) async fn whole_triggers(
        &self,
        kind: Option<TriggerType>,
        after: Option<Uuid>,
        limit: u16,
        offset: u32,
    ) -> Result<Vec<Trigger>> {
        let limit = i64::from(limit).min(LARGEST_PAGE);
        let which = WhichTriggers { id: None, kind, after, limit, offset: offset.into() };
        store::trigger::list(&self.session, self.reach.owner(), &which).await
    }

    /// The next runs of a trigger, in its zone.
    pub async fn preview(&self, id: Uuid, count: usize) -> Result<Vec<DueRun>> {
        let tenant = self.reach.owner();
        let trigger = known(&self.session, tenant, id).await?;
        if trigger.fields.trigger_type != TriggerType::Schedule {
            return Err(Error::refused("trigger_type", "only a schedule has runs to come"));
        }
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let after = trigger.fields.starts_at.map_or(now, |starts| now.max(just_before(starts)));
        let mut runs = trigger.fields.parse_schedule()?.preview(after, count.min(MOST_PREVIEWED));
        runs.retain(|run| trigger.fields.ends_at.is_none_or(|ends| run.due_at <= ends));
        Ok(runs)
    }

    /// The next runs of a schedule that is not stored; without a zone in the tenant's.
    pub async fn preview_schedule(
        &self,
        cron_expr: &str,
        timezone: Option<&str>,
        count: usize,
    ) -> Result<Vec<DueRun>> {
        let (now, zone) = store::trigger::now(&self.session, self.reach.owner()).await?;
        let zone = timezone.map(str::to_owned).or(zone).unwrap_or_else(|| "UTC".to_owned());
        Ok(Schedule::new(cron_expr, &zone)?.preview(now, count.min(MOST_PREVIEWED)))
    }

    /// What a trigger did, newest first: every instant with its outcome and reason, every event it matched.
    pub async fn fires(&self, id: Uuid, before: Option<Timestamp>, limit: u16) -> Result<Vec<Fire>> {
        let limit = i64::from(limit).min(LARGEST_PAGE);
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

fn checked_payload(rules: &PayloadRules, trigger: &Trigger, payload: &Value) -> Result<String> {
    let job = NewJob::new(&trigger.fields.definition_key).tenant(trigger.tenant_id).payload(payload);
    rules.check(job)?.payload_text().map(str::to_owned)
}

/// The instants within a trigger's dates, and those outside with the reason why they do not count.
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

/// An instant is strictly after its bound; this makes the bound itself one that counts.
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

/// The instants that have come and that no scheduler has decided about: they are told as left out when the trigger's times
/// change. A longer backlog (a week of minutes without any scheduler) is told as far as it is from its beginning.
fn undecided(trigger: &Trigger, now: Timestamp) -> Vec<Timestamp> {
    let Some(from) = trigger.undecided_from.filter(|from| *from <= now) else { return Vec::new() };
    let until = trigger.fields.ends_at.map_or(now, |ends| ends.min(now));
    let further: Vec<Timestamp> = match trigger.fields.parse_schedule() {
        Ok(schedule) => schedule.due_in(from, until).take(MOST_MISSED - 1).collect(),
        // A zone that this machine does not know: the first is known from the row.
        Err(_) => Vec::new(),
    };
    std::iter::once(from).chain(further).collect()
}
