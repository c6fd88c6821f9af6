//! What is read of triggers at work: instants that fired or did not, and events with what they caused.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// What a trigger did about one instant, or about one event that it matched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fire {
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
    pub job_id: Option<Uuid>,
    /// How long after its instant the job may start.
    pub jitter_seconds: f64,
    pub event_id: Option<Uuid>,
    pub decided_at: Timestamp,
}

/// What an operator's run or backfill did about one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FireOutcome {
    pub due_at: Timestamp,
    /// `fired` or `skipped`; `due` in a dry run.
    pub outcome: String,
    pub reason: Option<String>,
    pub job_id: Option<Uuid>,
}

/// An event with what it caused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    pub id: Uuid,
    pub tenant_id: Uuid,
    pub name: String,
    pub payload: Value,
    pub emitted_at: Timestamp,
    pub dedupe_id: Option<String>,
    pub correlation_id: Option<String>,
    pub created_by: Option<Uuid>,
    /// Nobody has dispatched it yet, or not at all of its triggers.
    pub is_pending: bool,
    /// Why it could not be dispatched; it is tried again by itself.
    pub problem: Option<String>,
    pub triggers: Vec<EventTrigger>,
}

/// What became of an event at one trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventTrigger {
    pub trigger_id: Uuid,
    /// `fired`, `deduplicated` (the job is the one that came before), or `failed`.
    pub outcome: String,
    pub reason: Option<String>,
    pub job_id: Option<Uuid>,
}

/// What an event would do at one trigger.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WouldFire {
    pub trigger_id: Uuid,
    pub label: String,
    pub definition_key: String,
    /// The rendered payload, unless there can be none.
    pub payload: Option<Value>,
    pub reason: Option<String>,
}
