//! Triggers as the OpenAPI document describes them; the values come from the library.

#![allow(dead_code, reason = "only the OpenAPI generator reads them")]

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// What a change of a trigger returns.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the value is the library's own")]
pub(crate) enum ChangedTrigger {
    /// For a credential with `triggers:read`.
    Readable(Box<Trigger>),
    /// For any other.
    Written(WrittenTrigger),
}

/// The trigger after a change, for a credential without `triggers:read`.
#[derive(Serialize, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenTrigger {
    id: Uuid,
    generation: i32,
}

/// A stored trigger: its fields and its state.
#[derive(Serialize, ToSchema)]
pub(crate) struct Trigger {
    id: Uuid,
    tenant_id: Uuid,
    definition_id: Uuid,
    /// Incremented with every edit; the ETag.
    generation: i32,
    /// The next due instant.
    #[schema(format = DateTime)]
    next_due_at: Option<String>,
    /// The cron expression in words.
    #[schema(example = "at 02:00")]
    in_words: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    created_by: Option<Uuid>,
    label: String,
    trigger_type: TriggerType,
    event_name: Option<String>,
    #[schema(value_type = Object)]
    conditions: serde_json::Value,
    cron_expr: Option<String>,
    timezone: Option<String>,
    definition_key: String,
    #[schema(value_type = Value)]
    payload_template: serde_json::Value,
    dedupe_window_seconds: u32,
    is_enabled: bool,
    misfire: Misfire,
    misfire_max: u32,
    misfire_window_seconds: u32,
    misfire_grace_seconds: u32,
    overlap: Overlap,
    jitter_seconds: u32,
    #[schema(format = DateTime)]
    starts_at: Option<String>,
    #[schema(format = DateTime)]
    ends_at: Option<String>,
}

/// The fields of a trigger, written once; the required ones differ.
macro_rules! trigger_fields {
    ($(#[$about:meta])* $name:ident, $text:ty, $kind:ty) => {
        #[derive(Serialize, serde::Deserialize, ToSchema)]
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            #[schema(min_length = 1, max_length = 200)]
            label: $text,
            trigger_type: $kind,
            #[schema(min_length = 1, max_length = 200)]
            definition_key: $text,
            /// Event triggers only: a name, or a pattern such as `provider.*`.
            #[schema(max_length = 200)]
            event_name: Option<String>,
            /// Event triggers only: the conditions on the payload, by path.
            #[schema(value_type = Option<Object>)]
            conditions: Option<serde_json::Value>,
            /// Schedules only: five fields, or a shorthand such as `@daily`.
            #[schema(max_length = 200)]
            cron_expr: Option<String>,
            /// Schedules only: an IANA time zone (default: that of the tenant).
            #[schema(max_length = 100)]
            timezone: Option<String>,
            #[schema(value_type = Option<Value>)]
            payload_template: Option<serde_json::Value>,
            #[schema(maximum = 31_622_400)]
            dedupe_window_seconds: Option<u32>,
            is_enabled: Option<bool>,
            misfire: Option<Misfire>,
            #[schema(minimum = 1, maximum = 1000)]
            misfire_max: Option<u32>,
            #[schema(minimum = 1, maximum = 31_622_400)]
            misfire_window_seconds: Option<u32>,
            #[schema(minimum = 1, maximum = 86_400)]
            misfire_grace_seconds: Option<u32>,
            overlap: Option<Overlap>,
            #[schema(maximum = 86_400)]
            jitter_seconds: Option<u32>,
            #[schema(format = DateTime)]
            starts_at: Option<String>,
            #[schema(format = DateTime)]
            ends_at: Option<String>,
        }
    };
}

trigger_fields!(
    /// A new trigger.
    #[schema(example = json!({"label": "Nightly provider sync", "trigger_type": "schedule", "cron_expr": "0 2 * * *",
        "timezone": "America/New_York", "definition_key": "sync-dropbox", "payload_template": {"path_prefix": "/"}}))]
    NewTrigger, String, TriggerType
);
trigger_fields!(
    /// Fields of a trigger; omitted fields keep their value.
    TriggerFields, Option<String>, Option<TriggerType>
);

#[derive(Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TriggerType {
    Event,
    Schedule,
}

/// What to do with instants that passed while no keeper was running.
#[derive(Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Misfire {
    Skip,
    FireOnce,
    FireAll,
}

/// What to do if the previous job of the trigger has not ended.
#[derive(Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Overlap {
    Allow,
    Skip,
    QueueOne,
    CancelRunning,
}

/// The outcome of a trigger for one instant, or for one event.
#[derive(Serialize, ToSchema)]
pub(crate) struct Fire {
    trigger_id: Uuid,
    #[schema(format = DateTime)]
    due_at: String,
    /// schedule, manual, backfill or event
    kind: String,
    generation: Option<i32>,
    /// fired or skipped; of an event also deduplicated or failed
    outcome: String,
    reason: Option<String>,
    job_id: Option<Uuid>,
    /// How long after its instant the job may start, in seconds.
    jitter_seconds: f64,
    event_id: Option<Uuid>,
    #[schema(format = DateTime)]
    decided_at: String,
}

/// The outcome of one requested instant.
#[derive(Serialize, ToSchema)]
pub(crate) struct FireOutcome {
    #[schema(format = DateTime)]
    due_at: String,
    /// fired, skipped, or (in a dry run) due
    outcome: String,
    reason: Option<String>,
    job_id: Option<Uuid>,
}

/// One future run.
#[derive(Serialize, ToSchema)]
pub(crate) struct DueRun {
    #[schema(format = DateTime)]
    due_at: String,
    /// In the time zone of the trigger.
    #[schema(example = "2026-03-29T03:00:00+02:00")]
    local: String,
    /// moved_past_gap, first_of_two, second_of_two or clocks_changed
    clock_change: Option<String>,
}

/// What an event would do at one trigger.
#[derive(Serialize, ToSchema)]
pub(crate) struct WouldFire {
    trigger_id: Uuid,
    label: String,
    definition_key: String,
    #[schema(value_type = Value)]
    payload: Option<serde_json::Value>,
    /// Why no job would be created, or why that is not known.
    reason: Option<String>,
}
