//! The same operations for applications that embed the queue and act in their own name: each call is one transaction,
//! and its changes are in the audit trail under the name of the actor.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::APPLICATION;
use crate::control::transaction::{Acting, Reading};
use crate::error::Result;
use crate::model::actor::{Actor, Reach};
use crate::model::cron::DueRun;
use crate::model::event::{EventFilter, NewEvent};
use crate::model::record::{Event, EventTrigger, Fire, FireOutcome, WouldFire};
use crate::model::trigger::{NewTrigger, Trigger, TriggerType};
use crate::queue::Queue;

/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::DEFAULT_TENANT;
/// use windlass::events::{EventFilter, NewEvent};
/// use windlass::schedule::{NewTrigger, TriggerType};
///
/// // Preview the next runs before the schedule exists, then create it.
/// for run in queue.preview_schedule(DEFAULT_TENANT, "30 2 * * *", Some("Europe/Berlin"), 3).await? {
///     println!("{}", run.local);
/// }
/// let nightly = NewTrigger::schedule("nightly cleanup", "30 2 * * *", "cleanup");
/// let trigger = queue.create_trigger(DEFAULT_TENANT, &nightly, "deploy").await?;
/// println!("next: {:?}", queue.preview(DEFAULT_TENANT, trigger.id, 1).await?.first());
///
/// // Change it, unless it has been changed since.
/// let changes = serde_json::json!({ "cron_expr": "0 3 * * *" });
/// let changes = changes.as_object().cloned().unwrap_or_default();
/// queue.update_trigger(DEFAULT_TENANT, trigger.id, Some(trigger.generation), &changes, "deploy").await?;
///
/// // Fire it now, and for the instants that were missed yesterday.
/// queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "on call").await?;
/// let now = jiff::Timestamp::now();
/// let yesterday = now - jiff::SignedDuration::from_hours(24)..=now;
/// queue.backfill(DEFAULT_TENANT, trigger.id, yesterday, false, "on call").await?;
/// for fire in queue.fires(DEFAULT_TENANT, trigger.id, None, 20).await? {
///     println!("{} {}", fire.due_at, fire.outcome);
/// }
///
/// // List triggers, and the outcomes of events.
/// println!("{:?}", queue.trigger(DEFAULT_TENANT, trigger.id).await?.map(|found| found.next_due_at));
/// let schedules = queue.triggers(DEFAULT_TENANT, Some(TriggerType::Schedule), None, 50, 0).await?;
/// println!("{} schedules", schedules.len());
/// for event in queue.events(DEFAULT_TENANT, &EventFilter::default().only_failed(true)).await? {
///     for outcome in &event.triggers {
///         queue.retry_event(DEFAULT_TENANT, event.id, outcome.trigger_id, "on call").await?;
///     }
///     println!("{:?}", queue.event(DEFAULT_TENANT, event.id).await?.map(|found| found.is_pending));
/// }
/// let upload = NewEvent::new("image.uploaded").payload(&serde_json::json!({ "image": 7 }));
/// println!("would fire {} triggers", queue.dry_run(DEFAULT_TENANT, &upload).await?.len());
///
/// queue.delete_trigger(DEFAULT_TENANT, trigger.id, None, "deploy").await?;
/// # Ok(())
/// # }
/// ```
impl Queue {
    /// See [`Acting::create_trigger`].
    pub async fn create_trigger(&self, tenant: Uuid, new: &NewTrigger, actor: &str) -> Result<Trigger> {
        let acting = self.acting(tenant, actor).await?;
        let trigger = acting.create_trigger(new).await?;
        acting.commit().await?;
        Ok(trigger)
    }

    /// See [`Acting::update_trigger`].
    pub async fn update_trigger(
        &self,
        tenant: Uuid,
        id: Uuid,
        seen: Option<i32>,
        changes: &Map<String, Value>,
        actor: &str,
    ) -> Result<Trigger> {
        let acting = self.acting(tenant, actor).await?;
        let trigger = acting.update_trigger(id, seen, changes).await?;
        acting.commit().await?;
        Ok(trigger)
    }

    /// See [`Acting::delete_trigger`].
    pub async fn delete_trigger(&self, tenant: Uuid, id: Uuid, seen: Option<i32>, actor: &str) -> Result<()> {
        let acting = self.acting(tenant, actor).await?;
        acting.delete_trigger(id, seen).await?;
        acting.commit().await
    }

    /// See [`Acting::run_trigger`].
    pub async fn run_trigger(
        &self,
        tenant: Uuid,
        id: Uuid,
        event: Option<Value>,
        actor: &str,
    ) -> Result<FireOutcome> {
        let acting = self.acting(tenant, actor).await?;
        let fired = acting.run_trigger(id, event).await?;
        acting.commit().await?;
        Ok(fired)
    }

    /// See [`Acting::backfill`].
    pub async fn backfill(
        &self,
        tenant: Uuid,
        id: Uuid,
        range: RangeInclusive<Timestamp>,
        dry_run: bool,
        actor: &str,
    ) -> Result<Vec<FireOutcome>> {
        let acting = self.acting(tenant, actor).await?;
        let fired = acting.backfill(id, range, dry_run).await?;
        if !dry_run {
            acting.commit().await?;
        }
        Ok(fired)
    }

    /// See [`Reading::trigger`].
    pub async fn trigger(&self, tenant: Uuid, id: Uuid) -> Result<Option<Trigger>> {
        self.with_reading(tenant, async |reading: &Reading| reading.trigger(id).await).await
    }

    /// See [`Reading::triggers`].
    pub async fn triggers(
        &self,
        tenant: Uuid,
        kind: Option<TriggerType>,
        after: Option<Uuid>,
        limit: u16,
        offset: u32,
    ) -> Result<Vec<Trigger>> {
        self.with_reading(tenant, async |reading: &Reading| {
            reading.triggers(kind, after, limit, offset).await
        })
        .await
    }

    /// See [`Reading::preview`].
    pub async fn preview(&self, tenant: Uuid, id: Uuid, count: usize) -> Result<Vec<DueRun>> {
        self.with_reading(tenant, async |reading: &Reading| reading.preview(id, count).await).await
    }

    /// See [`Reading::preview_schedule`].
    pub async fn preview_schedule(
        &self,
        tenant: Uuid,
        cron_expr: &str,
        timezone: Option<&str>,
        count: usize,
    ) -> Result<Vec<DueRun>> {
        self.with_reading(tenant, async |reading: &Reading| {
            reading.preview_schedule(cron_expr, timezone, count).await
        })
        .await
    }

    /// See [`Reading::fires`].
    pub async fn fires(
        &self,
        tenant: Uuid,
        id: Uuid,
        before: Option<Timestamp>,
        limit: u16,
    ) -> Result<Vec<Fire>> {
        self.with_reading(tenant, async |reading: &Reading| reading.fires(id, before, limit).await).await
    }

    /// See [`Reading::events`].
    pub async fn events(&self, tenant: Uuid, filter: &EventFilter) -> Result<Vec<Event>> {
        self.with_reading(tenant, async |reading: &Reading| reading.events(filter).await.map(|page| page.0))
            .await
    }

    /// See [`Reading::event`].
    pub async fn event(&self, tenant: Uuid, id: Uuid) -> Result<Option<Event>> {
        self.with_reading(tenant, async |reading: &Reading| reading.event(id).await).await
    }

    /// See [`Reading::dry_run`].
    pub async fn dry_run(&self, tenant: Uuid, event: &NewEvent) -> Result<Vec<WouldFire>> {
        self.with_reading(tenant, async |reading: &Reading| reading.dry_run(event).await).await
    }

    /// See [`Acting::retry_event`].
    pub async fn retry_event(
        &self,
        tenant: Uuid,
        event: Uuid,
        trigger: Uuid,
        actor: &str,
    ) -> Result<Option<EventTrigger>> {
        let acting = self.acting(tenant, actor).await?;
        let made = acting.retry_event(event, trigger).await?;
        if made.is_some() {
            acting.commit().await?;
        }
        Ok(made)
    }

    pub(in crate::control) async fn acting(&self, tenant: Uuid, actor: &str) -> Result<Acting> {
        let actor = Actor { name: actor.to_owned(), role: APPLICATION.to_owned(), ..Actor::default() };
        self.act(Reach::Tenant(tenant), &actor).await
    }

    async fn with_reading<T>(
        &self,
        tenant: Uuid,
        read: impl AsyncFnOnce(&Reading) -> Result<T>,
    ) -> Result<T> {
        let reading = self.read(Reach::Tenant(tenant)).await?;
        let result = read(&reading).await?;
        reading.end().await?;
        Ok(result)
    }
}
