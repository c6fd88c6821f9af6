//! Trying out an event. It costs as much as to dispatch it, and whoever may see triggers may ask for it, so it has the dispatcher's bounds,
//! runs where nothing else waits for it, and each tenant has one at a time.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::blocking::{SMALL, by_size};
use crate::control::payload::PayloadRules;
use crate::control::transaction::Looking;
use crate::control::triggers::hidden;
use crate::error::{Error, Result};
use crate::model::event::NewEvent;
use crate::model::event::Pending;
use crate::model::record::WouldFire;
use crate::model::trigger::{self, MOST_BYTES, MOST_MATCHES, Trigger, TriggerType};
use crate::store;

/// Triggers that are read at once.
const PAGE: u16 = 100;

impl Looking {
    /// Which triggers an event would fire, with which payload. Writes nothing. Beyond 500 of them, or 8 MiB of payloads, it says only
    /// which ones.
    pub async fn dry_run(&self, event: &NewEvent) -> Result<Vec<WouldFire>> {
        let tenant = self.reach.owner();
        let under_way = Arc::new(self.dry_runs.take(tenant, 1).ok_or(Error::Busy)?);
        let (now, _) = store::trigger::now(&self.session, tenant).await?;
        let payload = event.payload_value()?;
        let (id, name) = (Uuid::nil(), event.name.clone());
        let event = Pending { tenant, id, name, payload, emitted_at: now, after: None };
        let mut trial = Trial { event, rules: HashMap::new(), would: Vec::new(), tried: 0, bytes: 0 };
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
            // It holds the tenant's place until it is done, also when nobody waits for its answer any more.
            let place = Arc::clone(&under_way);
            trial = by_size(SMALL, move || {
                let _place = place;
                trial.with(&page)
            })
            .await?;
            if is_last {
                return Ok(trial.would);
            }
        }
    }
}

/// An event, and what it would do at the triggers seen so far.
struct Trial {
    event: Pending,
    rules: HashMap<String, PayloadRules>,
    would: Vec<WouldFire>,
    tried: usize,
    bytes: usize,
}

impl Trial {
    fn with(mut self, triggers: &[Trigger]) -> Result<Self> {
        for trigger in triggers {
            if trigger::fits(trigger, &self.event.name, &self.event.payload) {
                let one = self.would_fire(trigger)?;
                self.would.push(one);
            }
        }
        Ok(self)
    }

    fn would_fire(&mut self, trigger: &Trigger) -> Result<WouldFire> {
        let key = &trigger.fields.definition_key;
        let mut one = WouldFire {
            trigger_id: trigger.id,
            label: trigger.fields.label.clone(),
            definition_key: key.clone(),
            payload: None,
            reason: None,
        };
        if self.tried >= MOST_MATCHES || self.bytes >= MOST_BYTES as usize {
            one.reason = Some("not tried: a dry run makes at most 500 payloads, and 8 MiB".to_owned());
            return Ok(one);
        }
        self.tried += 1;
        let rendered = trigger::render(trigger, &self.event);
        let job = rendered
            .as_ref()
            .map_err(Error::clone)
            .map(|payload| trigger::job_with(trigger, &self.event, payload));
        let checked = match (job, self.rules.get(key)) {
            (Ok(job), Some(rules)) => rules.check(job),
            (job, _) => job,
        };
        let made = trigger::matched(Uuid::nil(), trigger, checked)?.made;
        self.bytes += made.as_ref().map_or(0, |made| made.payload.len());
        one.payload = rendered.ok().map(|payload| hidden(trigger, &payload));
        one.reason = made.err();
        Ok(one)
    }
}
