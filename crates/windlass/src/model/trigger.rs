//! Triggers: they enqueue jobs on a schedule or on an event. Types and rules; the keeper applies them.

mod build;
mod check;
mod conditions;
mod fire;
mod pattern;
mod plan;

pub(crate) use super::template::Rendered;
pub(crate) use conditions::Conditions;
pub(crate) use fire::{MAX_BYTES, MAX_MATCHES, Match, Renderer, fits, job_with, matched};
pub(crate) use pattern::{check_name, matches_name};
pub(crate) use plan::{Decision, FirePlan, jitter, next_due, plan};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::text::redact::Redaction;

/// The root names in the template of a schedule, and in that of an event.
pub(crate) const SCHEDULE_ROOTS: [&str; 3] = ["schedule", "trigger", "tenant_id"];
pub(crate) const EVENT_ROOTS: [&str; 4] = ["event", "meta", "trigger", "tenant_id"];

/// What fires a trigger.
///
/// ```
/// use windlass::schedule::{NewTrigger, TriggerType};
///
/// assert_eq!(NewTrigger::schedule("import", "@hourly", "import").trigger_type, TriggerType::Schedule);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TriggerType {
    /// An event with a matching name.
    Event,
    /// A cron expression.
    Schedule,
}

/// What happens to instants that passed while no keeper was running.
///
/// ```
/// use windlass::schedule::{Misfire, NewTrigger};
///
/// // Every missed hour is computed, at most 24 of them.
/// let hourly = NewTrigger::schedule("usage", "@hourly", "usage").misfire(Misfire::FireAll).misfire_max(24);
/// assert_eq!(hourly.misfire, Misfire::FireAll);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Misfire {
    /// None of them fires.
    Skip,
    /// One job for all of them, for the latest.
    #[default]
    FireOnce,
    /// Each instant fires that is not older than `misfire_window_seconds`, but only the newest `misfire_max`.
    FireAll,
}

/// What happens if the previous job of the trigger has not ended.
///
/// ```
/// use windlass::schedule::{NewTrigger, Overlap};
///
/// let import = NewTrigger::schedule("import", "*/5 * * * *", "import").overlap(Overlap::Skip);
/// assert_eq!(import.overlap, Overlap::Skip);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// Both run.
    #[default]
    Allow,
    /// This instant is skipped.
    Skip,
    /// One job can wait for the running one; further instants are skipped.
    QueueOne,
    /// The unfinished job is canceled, and the new one starts when it has ended.
    CancelRunning,
}

/// A new trigger, or the fields of an existing one. The names are those of the HTTP API.
///
/// ```
/// use windlass::schedule::{Misfire, NewTrigger, Overlap};
///
/// let nightly = NewTrigger::schedule("nightly cleanup", "30 2 * * *", "cleanup")
///     .timezone("Europe/Berlin")
///     .misfire(Misfire::FireAll)
///     .misfire_max(7)
///     .misfire_window_seconds(7 * 86_400)
///     .misfire_grace_seconds(60)
///     .overlap(Overlap::Skip)
///     .jitter_seconds(30)
///     .starts_at("2026-01-01T00:00:00Z".parse()?)
///     .ends_at("2027-01-01T00:00:00Z".parse()?)
///     .created_by(uuid::Uuid::from_u128(7));
/// assert_eq!(nightly.cron_expr.as_deref(), Some("30 2 * * *"));
///
/// let thumbnails = NewTrigger::event("thumbnails", "image.*", "resize")
///     .conditions(serde_json::json!({ "kind": "photo" }))
///     .payload_template(serde_json::json!({ "image": "{{ event.image }}" }))
///     .dedupe_window_seconds(0);
/// let copy = thumbnails.label("copy").event_name("image.uploaded").definition_key("resize.small").is_enabled(false);
/// assert!(!copy.is_enabled);
/// assert_eq!(nightly.cron_expr("@daily").cron_expr.as_deref(), Some("@daily"));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NewTrigger {
    /// The name shown to people.
    pub label: String,
    /// What fires it.
    pub trigger_type: TriggerType,
    /// The name of an event, or a pattern: `provider.*` matches everything below `provider`.
    #[serde(default)]
    pub event_name: Option<String>,
    /// Conditions on the payload of an event, by path: `{"provider": "dropbox", "size": {"gte": 10}}`.
    #[serde(default = "no_members")]
    pub conditions: Value,
    /// The cron expression of a schedule.
    #[serde(default)]
    pub cron_expr: Option<String>,
    /// The time zone of the schedule (default: that of the tenant).
    #[serde(default)]
    pub timezone: Option<String>,
    /// The key of the definition whose jobs it enqueues.
    pub definition_key: String,
    /// The payload of its jobs; `{{ … }}` in strings is replaced.
    #[serde(default = "no_members")]
    pub payload_template: Value,
    /// For events: the same payload within this time does not enqueue another job. 0 disables it.
    #[serde(default = "five_minutes")]
    pub dedupe_window_seconds: u32,
    /// Whether it fires.
    #[serde(default = "yes")]
    pub is_enabled: bool,
    /// What happens to missed instants.
    #[serde(default)]
    pub misfire: Misfire,
    /// The maximum number of missed instants that fire, with [`Misfire::FireAll`].
    #[serde(default = "one_hundred")]
    pub misfire_max: u32,
    /// The maximum age of a missed instant, with [`Misfire::FireAll`].
    #[serde(default = "one_day")]
    pub misfire_window_seconds: u32,
    /// How late an instant can fire without being a misfire.
    #[serde(default = "one_minute")]
    pub misfire_grace_seconds: u32,
    /// What happens if the previous job of the trigger has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// The maximum random delay of each job after its instant; always the same for the same instant.
    #[serde(default)]
    pub jitter_seconds: u32,
    /// Instants before this one do not fire.
    #[serde(default, deserialize_with = "crate::model::instant::optional")]
    pub starts_at: Option<Timestamp>,
    /// Instants after this one do not fire.
    #[serde(default, deserialize_with = "crate::model::instant::optional")]
    pub ends_at: Option<Timestamp>,
    /// The user who created it.
    #[serde(default)]
    pub created_by: Option<Uuid>,
}

impl NewTrigger {
    /// A trigger that fires on events with this name or pattern.
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

    /// A trigger that fires when a cron expression is due.
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

/// A stored trigger.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, id: uuid::Uuid) -> windlass::Result<()> {
/// if let Some(trigger) = queue.trigger(windlass::DEFAULT_TENANT, id).await? {
///     println!("{} is next due at {:?}", trigger.fields.label, trigger.next_due_at);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trigger {
    /// The id of the trigger.
    pub id: Uuid,
    /// The tenant of the trigger.
    pub tenant_id: Uuid,
    /// The id of the definition whose jobs it enqueues.
    pub definition_id: Uuid,
    /// Incremented with every edit; older generations no longer fire.
    pub generation: i32,
    /// The next instant that has not been processed; none while it is paused, or after its end.
    pub next_due_at: Option<Timestamp>,
    /// The same, paused or not.
    #[serde(default, skip_serializing)]
    pub(crate) undecided_from: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// What its definition redacts in payloads; none if that cannot be parsed.
    #[serde(default, skip_serializing, deserialize_with = "readable")]
    pub(crate) redaction: Option<Redaction>,
    /// The fields that were set when it was created or changed.
    #[serde(flatten)]
    pub fields: NewTrigger,
}

fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Redaction>, D::Error> {
    let rules = Value::deserialize(deserializer)?;
    Ok(if rules.is_null() { Some(Redaction::default()) } else { serde_json::from_value(rules).ok() })
}
