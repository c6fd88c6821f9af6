//! What a trigger does for an event or an instant: whether it matches, the payload, and the new job. Used by the
//! keeper, and by manual runs and dry runs.

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Conditions, Trigger, TriggerType, matches_name};
use crate::error::Result;
use crate::model::cron::Schedule;
use crate::model::event::Pending;
use crate::model::new_job::NewJob;
use crate::model::template::{Rendered, Template};
use crate::text;

/// The limits of one dispatch round, or of one dry run: jobs, and bytes of payloads. A backfill has the same limit of
/// bytes.
pub(crate) const MAX_MATCHES: usize = 500;
pub(crate) const MAX_BYTES: u32 = 8 << 20;

/// One event at one matching trigger: a new job, or why there is none.
#[derive(Clone)]
pub(crate) struct Match {
    pub(crate) trigger: Uuid,
    pub(crate) generation: i32,
    pub(crate) key: String,
    pub(crate) window: i32,
    pub(crate) made: Result<Made, String>,
}

/// A rendered payload, and the key that identifies equal payloads within the trigger's window.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) job: Uuid,
    pub(crate) payload: String,
    pub(crate) dedupe_key: String,
}

/// Whether an event with this name and payload matches the trigger.
pub(crate) fn fits(trigger: &Trigger, name: &str, payload: &Value) -> bool {
    let fields = &trigger.fields;
    fields.event_name.as_deref().is_some_and(|pattern| matches_name(pattern, name))
        // Conditions were checked when they were stored; those that cannot be parsed match nothing.
        && Conditions::parse(&fields.conditions).is_ok_and(|conditions| conditions.hold(payload))
}

/// The job of a trigger with a rendered payload, before it is checked against its definition.
pub(crate) fn job_with(trigger: &Trigger, payload: &Value) -> NewJob {
    NewJob::new(&trigger.fields.definition_key).tenant(trigger.tenant_id).payload(payload)
}

/// The outcome of an event at a trigger: the checked job, with this id, or the reason why there is none. A transient
/// error is not a reason and is returned.
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

/// Renders the payloads of a trigger. The template and the schedule are parsed once, however many payloads follow.
///
/// A payload of more than `room` bytes is not rendered: the result is `None`.
pub(crate) struct Renderer {
    template: Template,
    schedule: Option<Schedule>,
    timezone: String,
    trigger: Value,
    tenant: Value,
}

impl Renderer {
    pub(crate) fn of(trigger: &Trigger) -> Result<Self> {
        let fields = &trigger.fields;
        let schedule = match fields.trigger_type {
            TriggerType::Schedule => Some(fields.parse_schedule()?),
            TriggerType::Event => None,
        };
        Ok(Self {
            template: fields.template()?,
            schedule,
            timezone: fields.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
            trigger: json!({"id": trigger.id, "label": fields.label}),
            tenant: json!(trigger.tenant_id),
        })
    }

    /// Renders the payload for an event.
    pub(crate) fn event(&self, event: &Pending, room: usize) -> Option<Rendered> {
        let meta = json!({"id": event.id, "name": event.name, "emitted_at": event.emitted_at});
        let Self { trigger, tenant, .. } = self;
        let values =
            [("event", &event.payload), ("meta", &meta), ("trigger", trigger), ("tenant_id", tenant)];
        self.template.render(&values, room)
    }

    /// Renders the payload for one instant.
    pub(crate) fn instant(&self, due: Timestamp, room: usize) -> Option<Rendered> {
        let local = self
            .schedule
            .as_ref()
            .map(|schedule| due.display_with_offset(schedule.zone().to_offset(due)).to_string());
        let schedule = json!({"due_at": due, "local": local, "timezone": self.timezone});
        let Self { trigger, tenant, .. } = self;
        self.template.render(&[("schedule", &schedule), ("trigger", trigger), ("tenant_id", tenant)], room)
    }
}
