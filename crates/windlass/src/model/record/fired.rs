//! The history of triggers: instants that fired or were skipped, and events with their outcomes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// The outcome of a trigger for one instant, or for one matching event.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, trigger: uuid::Uuid) -> windlass::Result<()> {
/// for fire in queue.fires(windlass::DEFAULT_TENANT, trigger, None, 20).await? {
///     println!("{} {} {:?}", fire.due_at, fire.outcome, fire.job_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fire {
    /// The id of the trigger.
    pub trigger_id: Uuid,
    /// The instant of the schedule, of the manual run, or of the event.
    pub due_at: Timestamp,
    /// `schedule`, `manual`, `backfill` or `event`.
    pub kind: String,
    /// The generation of the schedule; none for an event.
    pub generation: Option<i32>,
    /// `fired` or `skipped`; for an event also `deduplicated` or `failed`.
    pub outcome: String,
    /// Why it was skipped: `paused`, `misfire`, `overlap`, `edited`, `deleted`, or the error in its payload.
    pub reason: Option<String>,
    /// The job that was enqueued.
    pub job_id: Option<Uuid>,
    /// The delay between its instant and the start of the job, in seconds.
    pub jitter_seconds: f64,
    /// The event that fired it.
    pub event_id: Option<Uuid>,
    /// When it was processed.
    pub decided_at: Timestamp,
}

/// The outcome of a manual run or a backfill for one instant.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, trigger: uuid::Uuid) -> windlass::Result<()> {
/// let fired = queue.run_trigger(windlass::DEFAULT_TENANT, trigger, None, "on call").await?;
/// println!("{}: {:?}", fired.outcome, fired.job_id.map_or(fired.reason, |job| Some(job.to_string())));
/// # Ok(())
/// # }
/// ```
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

/// An event with its outcomes.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::events::EventFilter;
///
/// for event in queue.events(windlass::DEFAULT_TENANT, &EventFilter::default()).await? {
///     println!("{} {}: {} triggers", event.emitted_at, event.name, event.triggers.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The id of the event.
    pub id: Uuid,
    /// The tenant of the event.
    pub tenant_id: Uuid,
    /// The name of the event.
    pub name: String,
    /// The JSON payload.
    pub payload: Value,
    /// When it was emitted.
    pub emitted_at: Timestamp,
    /// The id by which duplicates are recognized.
    pub dedupe_id: Option<String>,
    /// The id that groups the jobs of one request or event.
    pub correlation_id: Option<String>,
    /// The user who caused it.
    pub created_by: Option<Uuid>,
    /// It has not been dispatched yet, or not to all of its triggers.
    pub is_pending: bool,
    /// Why it could not be dispatched; it is retried automatically.
    pub problem: Option<String>,
    /// The outcome at each matching trigger.
    pub triggers: Vec<EventTrigger>,
}

/// The outcome of an event at one trigger.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, event: uuid::Uuid) -> windlass::Result<()> {
/// if let Some(event) = queue.event(windlass::DEFAULT_TENANT, event).await? {
///     for trigger in &event.triggers {
///         println!("{}: {} {:?}", trigger.trigger_id, trigger.outcome, trigger.reason);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventTrigger {
    /// The id of the trigger.
    pub trigger_id: Uuid,
    /// `fired`, `deduplicated` (the job is the earlier one), or `failed`.
    pub outcome: String,
    /// Why nothing was enqueued.
    pub reason: Option<String>,
    /// The job that was enqueued.
    pub job_id: Option<Uuid>,
}

/// What an event would do at one trigger.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::events::NewEvent;
///
/// for trigger in queue.dry_run(windlass::DEFAULT_TENANT, &NewEvent::new("folder.updated")).await? {
///     println!("{} enqueues {}", trigger.label, trigger.definition_key);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WouldFire {
    /// The id of the trigger.
    pub trigger_id: Uuid,
    /// The name of the trigger.
    pub label: String,
    /// The key of its definition.
    pub definition_key: String,
    /// The rendered payload, if it could be rendered.
    pub payload: Option<Value>,
    /// Why nothing would be enqueued, or why that is not known.
    pub reason: Option<String>,
}
