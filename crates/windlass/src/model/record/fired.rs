//! What is read of triggers at work: instants that fired or did not, and events with what they caused.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// What a trigger did about one instant, or about one event that it matched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fire {
    /// The id of the trigger.
    pub trigger_id: Uuid,
    /// The instant of the schedule, or when it was asked for, or when the event was emitted.
    pub due_at: Timestamp,
    /// `schedule`, `manual`, `backfill` or `event`.
    pub kind: String,
    /// Of the schedule; an event has none.
    pub generation: Option<i32>,
    /// `fired` or `skipped`; of an event also `deduplicated` or `failed`.
    pub outcome: String,
    /// Why it was left out: `paused`, `misfire`, `overlap`, `edited`, `deleted`, or what was wrong with its payload.
    pub reason: Option<String>,
    /// The job that was enqueued.
    pub job_id: Option<Uuid>,
    /// How long after its instant the job may start.
    pub jitter_seconds: f64,
    /// The event that fired it.
    pub event_id: Option<Uuid>,
    /// When it was processed.
    pub decided_at: Timestamp,
}

/// What an operator's run or backfill did about one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FireOutcome {
    /// The due instant.
    pub due_at: Timestamp,
    /// `fired` or `skipped`; `due` in a dry run.
    pub outcome: String,
    /// Why nothing was enqueued.
    pub reason: Option<String>,
    /// The job that was enqueued.
    pub job_id: Option<Uuid>,
}

/// An event with what it caused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The id of the event.
    pub id: Uuid,
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The name of the event.
    pub name: String,
    /// The JSON input.
    pub payload: Value,
    /// When it was emitted.
    pub emitted_at: Timestamp,
    /// The id by which duplicates are recognized.
    pub dedupe_id: Option<String>,
    /// The id that groups the jobs of one request or event.
    pub correlation_id: Option<String>,
    /// The user who caused it.
    pub created_by: Option<Uuid>,
    /// Nobody has dispatched it yet, or not at all of its triggers.
    pub is_pending: bool,
    /// Why it could not be dispatched; it is tried again by itself.
    pub problem: Option<String>,
    /// What each matching trigger did.
    pub triggers: Vec<EventTrigger>,
}

/// What became of an event at one trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventTrigger {
    /// The id of the trigger.
    pub trigger_id: Uuid,
    /// `fired`, `deduplicated` (the job is the one that came before), or `failed`.
    pub outcome: String,
    /// Why nothing was enqueued.
    pub reason: Option<String>,
    /// The job that was enqueued.
    pub job_id: Option<Uuid>,
}

/// What an event would do at one trigger.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WouldFire {
    /// The id of the trigger.
    pub trigger_id: Uuid,
    /// The name of the trigger.
    pub label: String,
    /// The key of its definition.
    pub definition_key: String,
    /// The rendered payload, unless there can be none.
    pub payload: Option<Value>,
    /// Why nothing would be enqueued.
    pub reason: Option<String>,
}
