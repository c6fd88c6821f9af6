//! Dispatches events: which triggers match, with which payload, and so which jobs. Reads without a lock, decides in pure
//! code, and applies the decision with one statement in which the event leaves the outbox, so that it happens once
//! however often a dispatcher dies in between.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Round, leader};
use crate::error::Result;
use crate::new_job::NewJob;
use crate::queue::Queue;
use crate::store;
use crate::store::event::{Made, Match, Pending};
use crate::text;
use crate::trigger::{Conditions, Trigger, matches_name};

const MOST: i32 = 200;
/// How long emitters ring after a round that found nothing; the next such round asks again.
const RINGS_FOR: Duration = Duration::from_secs(3);

pub(super) async fn run_once(queue: &Queue, holder: Uuid) -> Result<Round> {
    let database = queue.database();
    let patience = leader::patience(database, "dispatch", holder).await?;
    let events = store::event::pending(database, patience, MOST, RINGS_FOR).await?;
    if events.is_empty() {
        return Ok(Round { next: (!patience.is_zero()).then_some(patience), ..Round::default() });
    }
    let tenants: BTreeSet<Uuid> = events.iter().map(|event| event.tenant).collect();
    let mut triggers: HashMap<Uuid, Vec<Trigger>> = HashMap::new();
    for trigger in store::event::triggers(database, &tenants.into_iter().collect::<Vec<_>>()).await? {
        triggers.entry(trigger.tenant_id).or_default().push(trigger);
    }
    let mut matches = Vec::new();
    for (ord, event) in (1..).zip(&events) {
        for trigger in triggers.get(&event.tenant).into_iter().flatten() {
            if fits(trigger, &event.name, &event.payload) {
                matches.push(make(queue, ord, event, trigger).await?);
            }
        }
    }
    let (dispatched, fired) = store::event::dispatch(database, &events, &matches).await?;
    metrics::counter!("windlass_events_dispatched_total").increment(dispatched);
    let is_full = events.len() >= MOST.unsigned_abs() as usize && dispatched > 0;
    tracing::debug!(dispatched, fired, "events dispatched");
    Ok(Round { moved: dispatched, is_full, next: None })
}

/// Whether an event of this name and payload is for the trigger.
pub(crate) fn fits(trigger: &Trigger, name: &str, payload: &Value) -> bool {
    let fields = &trigger.fields;
    fields.event_name.as_deref().is_some_and(|pattern| matches_name(pattern, name))
        // Conditions were checked when they were written; what cannot be read holds for nothing.
        && Conditions::parse(&fields.conditions).is_ok_and(|conditions| conditions.hold(payload))
}

/// The job that an event makes at a trigger it fits, or why there can be none.
pub(crate) async fn make(queue: &Queue, ord: i32, event: &Pending, trigger: &Trigger) -> Result<Match> {
    let made = match render(trigger, event) {
        Ok(payload) => {
            let job = NewJob::new(&trigger.fields.definition_key).tenant(event.tenant).payload(&payload);
            match queue.checked_route(&job).await {
                Ok(_) => job.payload_text().map(|text| Made {
                    job: queue.new_id(),
                    payload: text.to_owned(),
                    dedupe_key: format!("trigger {} {}", trigger.id, text::hex(&Sha256::digest(text))),
                }),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    Ok(Match {
        ord,
        trigger: trigger.id,
        generation: trigger.generation,
        key: trigger.fields.definition_key.clone(),
        window: i32::try_from(trigger.fields.dedupe_window_seconds).unwrap_or(i32::MAX),
        made: made.map_err(|error| text::storable(error.to_string().as_bytes(), 500)),
    })
}

/// The payload that a trigger makes of an event.
pub(crate) fn render(trigger: &Trigger, event: &Pending) -> Result<Value> {
    let meta = json!({"id": event.id, "name": event.name, "emitted_at": event.emitted_at});
    let about = json!({"id": trigger.id, "label": trigger.fields.label});
    let tenant = json!(event.tenant);
    let values = [("event", &event.payload), ("meta", &meta), ("trigger", &about), ("tenant_id", &tenant)];
    trigger.fields.template()?.render(&values)
}
