//! What a trigger makes of an event or an instant: whether it is meant, the payload, and the job to be. Shared by the keeper,
//! which fires, and by the operator's verbs, which fire by hand or only try.

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Conditions, Trigger, matches_name};
use crate::error::Result;
use crate::model::event::Pending;
use crate::model::new_job::NewJob;
use crate::text;

/// What one round of dispatching, or one dry run, may make: jobs, and bytes of payloads.
pub(crate) const MOST_MATCHES: usize = 500;
pub(crate) const MOST_BYTES: u32 = 8 << 20;

/// One event at one trigger that it matches: a job to be, or why there can be none.
#[derive(Clone)]
pub(crate) struct Match {
    pub(crate) trigger: Uuid,
    pub(crate) generation: i32,
    pub(crate) key: String,
    pub(crate) window: i32,
    pub(crate) made: Result<Made, String>,
}

/// A rendered payload, and what makes it the same as another within the trigger's window.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) job: Uuid,
    pub(crate) payload: String,
    pub(crate) dedupe_key: String,
}

/// Whether an event of this name and payload is for the trigger.
pub(crate) fn fits(trigger: &Trigger, name: &str, payload: &Value) -> bool {
    let fields = &trigger.fields;
    fields.event_name.as_deref().is_some_and(|pattern| matches_name(pattern, name))
        // Conditions were checked when they were written; what cannot be read holds for nothing.
        && Conditions::parse(&fields.conditions).is_ok_and(|conditions| conditions.hold(payload))
}

/// The job of an event, before it is checked against its definition.
pub(crate) fn job_of(trigger: &Trigger, event: &Pending) -> Result<NewJob> {
    Ok(job_with(trigger, event, &render(trigger, event)?))
}

/// The same with a payload that was rendered already.
pub(crate) fn job_with(trigger: &Trigger, event: &Pending, payload: &Value) -> NewJob {
    NewJob::new(&trigger.fields.definition_key).tenant(event.tenant).payload(payload)
}

/// What became of an event at a trigger: the job that was checked, under this id, or the reason why there is none. An error that
/// may pass is no reason.
pub(crate) fn matched(id: Uuid, trigger: &Trigger, checked: Result<NewJob>) -> Result<Match> {
    let made = checked.and_then(|job| {
        let payload = job.payload_text()?.to_owned();
        let dedupe_key = format!("trigger {} {}", trigger.id, text::hex(&Sha256::digest(&payload)));
        Ok(Made { job: id, payload, dedupe_key })
    });
    if let Err(error) = &made
        && error.is_transient()
    {
        return Err(error.clone());
    }
    Ok(Match {
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

/// The payload of one instant.
pub(crate) fn rendered(trigger: &Trigger, due: Timestamp) -> Result<Value> {
    let fields = &trigger.fields;
    let schedule = fields.parse_schedule()?;
    let zone = fields.timezone.as_deref().unwrap_or("UTC");
    let local = due.display_with_offset(schedule.zone().to_offset(due)).to_string();
    let schedule = json!({"due_at": due, "local": local, "timezone": zone});
    let about = json!({"id": trigger.id, "label": fields.label});
    let tenant = json!(trigger.tenant_id);
    fields.template()?.render(&[("schedule", &schedule), ("trigger", &about), ("tenant_id", &tenant)])
}
