//! Managing triggers: create, edit, delete, run now, backfill, look ahead and look back.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::cron::{DueRun, Schedule};
use crate::error::{Error, Result};
use crate::keeper;
use crate::new_job::NewJob;
use crate::queue::Queue;
use crate::record::{Fire, FireOutcome};
use crate::store;
use crate::store::event::Pending;
use crate::store::trigger::{Times, Which};
use crate::trigger::{NewTrigger, Trigger, TriggerType, next_due};

/// Instants that one backfill may have.
const MOST_BACKFILLED: usize = 1000;
const LARGEST_PAGE: i64 = 500;
const MOST_PREVIEWED: usize = 1000;

impl Queue {
    /// Makes a trigger. A schedule without a zone gets the tenant's. `actor` is recorded.
    pub async fn create_trigger(&self, tenant: Uuid, new: &NewTrigger, actor: &str) -> Result<Trigger> {
        let (now, zone) = store::trigger::now(self.database(), tenant).await?;
        let new = with_zone(new.clone(), zone);
        new.check()?;
        let first = first_due(&new, now)?;
        let id = store::trigger::create(self.database(), tenant, &new, first, actor).await?;
        self.known_trigger(tenant, id).await
    }

    /// One trigger, or nothing if the tenant has none with this id.
    pub async fn trigger(&self, tenant: Uuid, id: Uuid) -> Result<Option<Trigger>> {
        let which = Which { id: Some(id), limit: 1, ..Which::default() };
        Ok(store::trigger::list(self.database(), tenant, &which).await?.pop())
    }

    /// A tenant's triggers, newest first; those after the one named, for the next page.
    pub async fn triggers(
        &self,
        tenant: Uuid,
        kind: Option<TriggerType>,
        after: Option<Uuid>,
        limit: u16,
        offset: u32,
    ) -> Result<Vec<Trigger>> {
        let limit = i64::from(limit).min(LARGEST_PAGE);
        let which = Which { id: None, kind, after, limit, offset: offset.into() };
        store::trigger::list(self.database(), tenant, &which).await
    }

    /// Changes some fields: a JSON merge of what is given over what is there, null for the default. With `seen` only if
    /// the trigger is still of that generation. Nothing of an older generation fires after this.
    pub async fn update_trigger(
        &self,
        tenant: Uuid,
        id: Uuid,
        seen: Option<i32>,
        changes: &Map<String, Value>,
        actor: &str,
    ) -> Result<Trigger> {
        let old = self.known_trigger(tenant, id).await?;
        if seen.is_some_and(|seen| seen != old.generation) {
            return Err(Error::TriggerChanged { trigger: id });
        }
        let (now, zone) = store::trigger::now(self.database(), tenant).await?;
        let new = with_zone(merged(&old.fields, changes)?, zone);
        new.check()?;
        let times =
            if same_times(&old.fields, &new) { Times::Kept } else { Times::Changed(first_due(&new, now)?) };
        if !store::trigger::update(self.database(), &old, &new, times, actor).await? {
            return Err(Error::TriggerChanged { trigger: id });
        }
        self.known_trigger(tenant, id).await
    }

    /// Deletes a trigger; what it did stays to be seen. With `seen` only if it is still of that generation.
    pub async fn delete_trigger(&self, tenant: Uuid, id: Uuid, seen: Option<i32>, actor: &str) -> Result<()> {
        if store::trigger::delete(self.database(), tenant, id, seen, actor).await? {
            return Ok(());
        }
        match self.trigger(tenant, id).await? {
            Some(_) => Err(Error::TriggerChanged { trigger: id }),
            None => Err(Error::UnknownTrigger { trigger: id }),
        }
    }

    /// Fires a trigger now, paused or not, as far as its overlap policy allows. One that waits for events is given
    /// the payload of an event that did not happen.
    pub async fn run_trigger(
        &self,
        tenant: Uuid,
        id: Uuid,
        event: Option<Value>,
        actor: &str,
    ) -> Result<FireOutcome> {
        let trigger = self.known_trigger(tenant, id).await?;
        let (now, _) = store::trigger::now(self.database(), tenant).await?;
        let payload = match trigger.fields.trigger_type {
            TriggerType::Schedule if event.is_some() => {
                return Err(Error::refused("event", "is only for a trigger that waits for events"));
            }
            TriggerType::Schedule => keeper::rendered(&trigger, now)?,
            TriggerType::Event => {
                let payload = event.unwrap_or_else(|| Value::Object(Map::new()));
                let name = trigger.fields.event_name.clone().unwrap_or_default();
                keeper::render(
                    &trigger,
                    &Pending { tenant, id: Uuid::nil(), name, payload, emitted_at: now },
                )?
            }
        };
        let payload = self.checked_payload(&trigger, &payload).await?;
        let jobs = [self.new_id()];
        let mut made = store::trigger::run(self.database(), &trigger, None, &jobs, &[payload], actor).await?;
        made.pop().ok_or(Error::TriggerChanged { trigger: id })
    }

    /// Fires the instants of a past range that no generation has fired, at most 1000. A dry run only names them.
    pub async fn backfill(
        &self,
        tenant: Uuid,
        id: Uuid,
        from: Timestamp,
        until: Timestamp,
        dry_run: bool,
        actor: &str,
    ) -> Result<Vec<FireOutcome>> {
        let trigger = self.known_trigger(tenant, id).await?;
        if trigger.fields.trigger_type != TriggerType::Schedule {
            return Err(Error::refused("trigger_type", "only a schedule can be backfilled"));
        }
        let (now, _) = store::trigger::now(self.database(), tenant).await?;
        if until > now {
            return Err(Error::refused("until", "must not be in the future"));
        }
        let schedule = trigger.fields.parse_schedule()?;
        let before = from - SignedDuration::from_nanos(1);
        let dues: Vec<Timestamp> = schedule.due_in(before, until).take(MOST_BACKFILLED + 1).collect();
        if dues.len() > MOST_BACKFILLED {
            let message =
                format!("has more than {MOST_BACKFILLED} instants since `from`; choose a shorter range");
            return Err(Error::refused("until", message));
        }
        if dry_run {
            let due = |due_at| FireOutcome { due_at, outcome: "due".to_owned(), reason: None, job_id: None };
            return Ok(dues.into_iter().map(due).collect());
        }
        let mut payloads = Vec::with_capacity(dues.len());
        for due in &dues {
            payloads.push(self.checked_payload(&trigger, &keeper::rendered(&trigger, *due)?).await?);
        }
        let jobs: Vec<Uuid> = dues.iter().map(|_| self.new_id()).collect();
        store::trigger::run(self.database(), &trigger, Some(&dues), &jobs, &payloads, actor).await
    }

    /// The next runs of a trigger, in its zone.
    pub async fn preview(&self, tenant: Uuid, id: Uuid, count: usize) -> Result<Vec<DueRun>> {
        let trigger = self.known_trigger(tenant, id).await?;
        if trigger.fields.trigger_type != TriggerType::Schedule {
            return Err(Error::refused("trigger_type", "only a schedule has runs to come"));
        }
        let (now, _) = store::trigger::now(self.database(), tenant).await?;
        let schedule = trigger.fields.parse_schedule()?;
        let count = count.min(MOST_PREVIEWED);
        let after =
            trigger.fields.starts_at.map_or(now, |starts| now.max(starts - SignedDuration::from_nanos(1)));
        let mut runs = schedule.preview(after, count);
        runs.retain(|run| trigger.fields.ends_at.is_none_or(|ends| run.due_at <= ends));
        Ok(runs)
    }

    /// The next runs of a schedule that is not stored; without a zone in the tenant's.
    pub async fn preview_schedule(
        &self,
        tenant: Uuid,
        cron_expr: &str,
        timezone: Option<&str>,
        count: usize,
    ) -> Result<Vec<DueRun>> {
        let (now, zone) = store::trigger::now(self.database(), tenant).await?;
        let zone = timezone.map(str::to_owned).or(zone).unwrap_or_else(|| "UTC".to_owned());
        Ok(Schedule::new(cron_expr, &zone)?.preview(now, count.min(MOST_PREVIEWED)))
    }

    /// What a trigger did, newest first: every instant with its outcome and reason, every event it matched.
    pub async fn fires(
        &self,
        tenant: Uuid,
        id: Uuid,
        before: Option<Timestamp>,
        limit: u16,
    ) -> Result<Vec<Fire>> {
        let limit = i64::from(limit).min(LARGEST_PAGE);
        let mut fires = store::trigger::fires(self.database(), tenant, id, before, limit).await?;
        fires.sort_by_key(|fire| std::cmp::Reverse(fire.due_at));
        fires.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(fires)
    }

    pub(super) async fn known_trigger(&self, tenant: Uuid, id: Uuid) -> Result<Trigger> {
        self.trigger(tenant, id).await?.ok_or(Error::UnknownTrigger { trigger: id })
    }

    async fn checked_payload(&self, trigger: &Trigger, payload: &Value) -> Result<String> {
        let job = NewJob::new(&trigger.fields.definition_key).tenant(trigger.tenant_id).payload(payload);
        self.checked_route(&job).await?;
        job.payload_text().map(str::to_owned)
    }
}

fn with_zone(mut trigger: NewTrigger, zone: Option<String>) -> NewTrigger {
    if trigger.trigger_type == TriggerType::Schedule && trigger.timezone.is_none() {
        trigger.timezone = zone;
    }
    trigger
}

fn first_due(trigger: &NewTrigger, now: Timestamp) -> Result<Option<Timestamp>> {
    if trigger.trigger_type == TriggerType::Event || !trigger.is_enabled {
        return Ok(None);
    }
    Ok(next_due(trigger, &trigger.parse_schedule()?, now))
}

fn same_times(old: &NewTrigger, new: &NewTrigger) -> bool {
    let times = |trigger: &NewTrigger| {
        let cron = (trigger.cron_expr.clone(), trigger.timezone.clone());
        (trigger.trigger_type, cron, trigger.is_enabled, trigger.starts_at, trigger.ends_at)
    };
    times(old) == times(new)
}

/// The fields with the changes over them; what is wrong is refused by the field that brought it.
fn merged(old: &NewTrigger, changes: &Map<String, Value>) -> Result<NewTrigger> {
    let unreadable = |error: serde_json::Error| Error::refused("trigger", error.to_string());
    let Value::Object(mut fields) = serde_json::to_value(old).map_err(unreadable)? else {
        return Err(Error::refused("trigger", "must be an object"));
    };
    let known: Vec<String> = fields.keys().cloned().collect();
    for (name, value) in changes {
        if !known.contains(name) {
            return Err(Error::refused(name, "is not a field of a trigger"));
        }
        // A template may be null in itself; every other field's null means that it is left out.
        if value.is_null() && name != "payload_template" {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
        NewTrigger::deserialize_fields(&fields).map_err(|error| Error::refused(name, error.to_string()))?;
    }
    NewTrigger::deserialize_fields(&fields).map_err(unreadable)
}
