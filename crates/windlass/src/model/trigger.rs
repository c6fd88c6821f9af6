//! What starts jobs by itself: a schedule, or an event's name. Types and rules; the keeper acts on them.

mod build;
mod check;
mod conditions;
mod fire;
mod pattern;
mod plan;

pub(crate) use conditions::Conditions;
pub(crate) use fire::{MOST_BYTES, MOST_MATCHES, Match, fits, job_of, job_with, matched, render, rendered};
pub(crate) use pattern::{check_name, matches_name};
pub(crate) use plan::{Decision, jitter, next_due, plan};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::text::redact::Redaction;

/// What a template of a schedule may speak of, and what one of an event.
pub(crate) const SCHEDULE_ROOTS: [&str; 3] = ["schedule", "trigger", "tenant_id"];
pub(crate) const EVENT_ROOTS: [&str; 4] = ["event", "meta", "trigger", "tenant_id"];

/// What fires a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerType {
    /// An event with a matching name.
    Event,
    /// A cron expression.
    Schedule,
}

/// What becomes of instants that passed while no scheduler ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Misfire {
    /// None of them fires.
    Skip,
    /// One job for all of them, for the latest.
    #[default]
    FireOnce,
    /// Each fires that is not older than `misfire_window_seconds`, the newest `misfire_max` of them.
    FireAll,
}

/// What happens when a job of the same trigger has not ended yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// Both run.
    #[default]
    Allow,
    /// This instant is left out.
    Skip,
    /// One may wait for the one that runs; further ones are left out.
    QueueOne,
    /// The one that has not ended is canceled, and the new one starts when it is over.
    CancelRunning,
}

/// A trigger to be, and the fields of one that is. The names are those of the HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NewTrigger {
    /// For people.
    pub label: String,
    /// What fires it.
    pub trigger_type: TriggerType,
    /// The name of an event, or a pattern: `provider.*` is everything below `provider`.
    #[serde(default)]
    pub event_name: Option<String>,
    /// What an event's payload must be like, by path: `{"provider": "dropbox", "size": {"gte": 10}}`.
    #[serde(default = "no_members")]
    pub conditions: Value,
    /// The cron expression of a schedule.
    #[serde(default)]
    pub cron_expr: Option<String>,
    /// The zone of the schedule; the tenant's, if left out.
    #[serde(default)]
    pub timezone: Option<String>,
    /// The key of the definition whose jobs it enqueues.
    pub definition_key: String,
    /// The payload of its jobs; `{{ … }}` in texts is replaced.
    #[serde(default = "no_members")]
    pub payload_template: Value,
    /// For events: the same payload again within this time causes no second job. 0 switches it off.
    #[serde(default = "five_minutes")]
    pub dedupe_window_seconds: u32,
    /// Whether it fires.
    #[serde(default = "yes")]
    pub is_enabled: bool,
    /// What happens to due instants that were missed.
    #[serde(default)]
    pub misfire: Misfire,
    /// The most missed instants that fire, with [`Misfire::FireAll`].
    #[serde(default = "one_hundred")]
    pub misfire_max: u32,
    /// How old a missed instant may be, with [`Misfire::FireAll`].
    #[serde(default = "one_day")]
    pub misfire_window_seconds: u32,
    /// How late an instant may be fired without being a misfire.
    #[serde(default = "one_minute")]
    pub misfire_grace_seconds: u32,
    /// What happens while an earlier job of the trigger has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// Each job starts at a moment within this time of its instant, the same for the same instant.
    #[serde(default)]
    pub jitter_seconds: u32,
    /// No instant before this fires.
    #[serde(default, deserialize_with = "crate::model::instant::optional")]
    pub starts_at: Option<Timestamp>,
    /// No instant after this fires.
    #[serde(default, deserialize_with = "crate::model::instant::optional")]
    pub ends_at: Option<Timestamp>,
    /// The user who created it.
    #[serde(default)]
    pub created_by: Option<Uuid>,
}

impl NewTrigger {
    /// Fires on an event's name or pattern.
    pub fn event(
        label: impl Into<String>,
        event_name: impl Into<String>,
        definition_key: impl Into<String>,
    ) -> Self {
        Self {
            event_name: Some(event_name.into()),
            ..Self::bare(label.into(), TriggerType::Event, definition_key.into())
        }
    }

    /// Fires when a cron expression is due.
    pub fn schedule(
        label: impl Into<String>,
        cron_expr: impl Into<String>,
        definition_key: impl Into<String>,
    ) -> Self {
        Self {
            cron_expr: Some(cron_expr.into()),
            ..Self::bare(label.into(), TriggerType::Schedule, definition_key.into())
        }
    }

    pub(crate) fn deserialize_fields(fields: &serde_json::Map<String, Value>) -> serde_json::Result<Self> {
        serde_json::from_value(Value::Object(fields.clone()))
    }

    fn bare(label: String, trigger_type: TriggerType, definition_key: String) -> Self {
        Self {
            label,
            trigger_type,
            event_name: None,
            conditions: no_members(),
            cron_expr: None,
            timezone: None,
            definition_key,
            payload_template: no_members(),
            dedupe_window_seconds: five_minutes(),
            is_enabled: true,
            misfire: Misfire::default(),
            misfire_max: one_hundred(),
            misfire_window_seconds: one_day(),
            misfire_grace_seconds: one_minute(),
            overlap: Overlap::default(),
            jitter_seconds: 0,
            starts_at: None,
            ends_at: None,
            created_by: None,
        }
    }
}

fn no_members() -> Value {
    Value::Object(serde_json::Map::new())
}

fn yes() -> bool {
    true
}

fn five_minutes() -> u32 {
    300
}

fn one_hundred() -> u32 {
    100
}

fn one_day() -> u32 {
    86_400
}

fn one_minute() -> u32 {
    60
}

/// A trigger as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trigger {
    /// The id of the trigger.
    pub id: Uuid,
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The id of the definition whose jobs it enqueues.
    pub definition_id: Uuid,
    /// Rises with every edit; nothing of an older one fires after the edit.
    pub generation: i32,
    /// The next instant that is not decided yet; none while it is paused, or after its end.
    pub next_due_at: Option<Timestamp>,
    /// The same, paused or not.
    #[serde(default, skip_serializing)]
    pub(crate) undecided_from: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// What its definition hides of payloads; none if that cannot be read.
    #[serde(default, skip_serializing, deserialize_with = "readable")]
    pub(crate) redaction: Option<Redaction>,
    /// Everything that was set when it was created or changed.
    #[serde(flatten)]
    pub fields: NewTrigger,
}

fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Redaction>, D::Error> {
    let rules = Value::deserialize(deserializer)?;
    Ok(if rules.is_null() { Some(Redaction::default()) } else { serde_json::from_value(rules).ok() })
}
