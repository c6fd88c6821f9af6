//! Dry run of an event. It costs as much as dispatching it, and every caller that can read triggers can start one. So
//! it has the limits of the dispatcher, runs on a blocking thread, and each tenant can have one at a time.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::blocking;
use crate::control::payload::PayloadRules;
use crate::control::transaction::Reading;
use crate::control::triggers::{hidden, without_hidden_conditions};
use crate::error::{Error, Result};
use crate::model::event::NewEvent;
use crate::model::event::Pending;
use crate::model::record::WouldFire;
use crate::model::trigger::{self, MAX_BYTES, MAX_MATCHES, Rendered, Renderer, Trigger, TriggerType};
use crate::store;

const BUSY: Error = Error::Busy {
    reason: "a dry run or a backfill of the tenant is in progress, and a tenant can have one of them at a time; repeat the dry run later",
};

/// A dry run reveals whether an event matches the conditions, so many dry runs could reveal a hidden value.
const UNDECIDED: &str = "not decided: conditions of this trigger are hidden, and a dry run compares them only for callers who can emit events";

/// The number of triggers per query.
const PAGE: u16 = 100;

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// use windlass::events::NewEvent;
///
/// let event = NewEvent::new("folder.updated").payload(&serde_json::json!({ "folder": 7 }));
/// for trigger in reading.dry_run(&event).await? {
///     println!("{} would enqueue {} with {:?}", trigger.label, trigger.definition_key, trigger.payload);
/// }
/// // For a person who may read triggers but not emit events:
/// reading.dry_run_of_reader(&event).await?;
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// Returns the triggers that an event would fire, with their payloads. Writes nothing. Beyond 500 triggers, or 8
    /// MiB of payloads, it omits the payloads.
    pub async fn dry_run(&self, event: &NewEvent) -> Result<Vec<WouldFire>> {
        self.tried(event, true).await
    }

    /// The same for a caller who cannot emit the event: without comparing the conditions that are hidden. A trigger whose
    /// other conditions match is returned without a payload.
    pub async fn dry_run_of_reader(&self, event: &NewEvent) -> Result<Vec<WouldFire>> {
        self.tried(event, false).await
    }

    async fn tried(&self, event: &NewEvent, decides_hidden: bool) -> Result<Vec<WouldFire>> {
        let tenant = self.reach.owner();
        let slot = Arc::new(self.dry_runs.take(tenant, 1).ok_or(BUSY)?);
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let payload = event.payload_value()?;
        let (id, name) = (Uuid::nil(), event.name.clone());
        let event = Pending { tenant, id, name, payload, emitted_at: now, after: None };
        let (rules, would) = (HashMap::new(), Vec::new());
        let mut trial = Trial { event, decides_hidden, rules, would, tried: 0, bytes: 0 };
        let mut after = None;
        loop {
            let page = self.whole_triggers(Some(TriggerType::Event), after, PAGE, 0).await?;
            after = page.last().map(|trigger| trigger.id);
            let is_last = page.len() < usize::from(PAGE);
            let page: Vec<Trigger> = page.into_iter().filter(|trigger| trigger.fields.is_enabled).collect();
            for trigger in &page {
                let key = &trigger.fields.definition_key;
                if !trial.rules.contains_key(key) {
                    trial.rules.insert(key.clone(), PayloadRules::read(&self.session, key).await?);
                }
            }
            // It holds the slot of the tenant until it is done, even if the caller no longer waits for the result.
            let held = Arc::clone(&slot);
            trial = blocking::run(move || {
                let _held = held;
                trial.with(&page)
            })
            .await?;
            if is_last {
                return Ok(trial.would);
            }
        }
    }
}

/// An event, and its outcome at the triggers that were tried so far.
struct Trial {
    event: Pending,
    decides_hidden: bool,
    rules: HashMap<String, PayloadRules>,
    would: Vec<WouldFire>,
    tried: usize,
    bytes: usize,
}

impl Trial {
    fn with(mut self, triggers: &[Trigger]) -> Result<Self> {
        for trigger in triggers {
            let partly = if self.decides_hidden { None } else { without_hidden_conditions(trigger) };
            if !trigger::fits(partly.as_ref().unwrap_or(trigger), &self.event.name, &self.event.payload) {
                continue;
            }
            let one = match partly {
                Some(_) => WouldFire { reason: Some(UNDECIDED.to_owned()), ..unrendered(trigger) },
                None => self.would_fire(trigger)?,
            };
            self.would.push(one);
        }
        Ok(self)
    }

    fn would_fire(&mut self, trigger: &Trigger) -> Result<WouldFire> {
        let key = &trigger.fields.definition_key;
        let mut one = unrendered(trigger);
        let left = (MAX_BYTES as usize).saturating_sub(self.bytes);
        let is_over = self.tried >= MAX_MATCHES || left == 0;
        let rendered = if is_over {
            None
        } else {
            match Renderer::of(trigger) {
                Ok(renderer) => renderer.event(&self.event, left),
                Err(error) => Some(Rendered::nothing(error)),
            }
        };
        let Some(Rendered { payload, bytes }) = rendered else {
            // The others are not tried, so that no more than the limit is ever rendered.
            self.bytes = MAX_BYTES as usize;
            one.reason = Some("not rendered: a dry run renders at most 500 payloads and 8 MiB".to_owned());
            return Ok(one);
        };
        self.tried += 1;
        self.bytes += bytes;
        let job = payload.as_ref().map_err(Error::clone).map(|payload| trigger::job_with(trigger, payload));
        let checked = match (job, self.rules.get(key)) {
            (Ok(job), Some(rules)) => rules.check(job),
            (job, _) => job,
        };
        let made = trigger::matched(Uuid::nil(), trigger, checked)?.made;
        one.payload = payload.ok().map(|payload| hidden(trigger, &payload));
        one.reason = made.err();
        Ok(one)
    }
}

fn unrendered(trigger: &Trigger) -> WouldFire {
    WouldFire {
        trigger_id: trigger.id,
        label: trigger.fields.label.clone(),
        definition_key: trigger.fields.definition_key.clone(),
        payload: None,
        reason: None,
    }
}
