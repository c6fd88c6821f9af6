//! Emitting events for a caller, reading events with the outcomes at their triggers, and retrying failed ones.

mod dry_run;

use serde_json::json;
use uuid::Uuid;

use super::payload::PayloadRules;
use super::triggers::{job_of_event, known};
use crate::control::transaction::{Acting, Reading};
use crate::error::{Error, Result};
use crate::model::audit::{Act, Action};
use crate::model::event::Pending;
use crate::model::event::{Emitted, EventFilter, NewEvent};
use crate::model::record::{Event, EventTrigger};
use crate::model::trigger;
use crate::store;
use crate::store::database::Session;
use crate::store::event::WhichEvents;
use crate::text::redact;

const MAX_PAGE: u16 = 500;

/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting, trigger: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::events::NewEvent;
///
/// let event = NewEvent::new("folder.updated").payload(&serde_json::json!({ "folder": 7 }));
/// let emitted = acting.emit(&event).await?;
/// // After the trigger was corrected:
/// acting.retry_event(emitted.id, trigger).await?;
/// # Ok(())
/// # }
/// ```
impl Acting {
    /// Emits an event for the caller's tenant.
    pub async fn emit(&self, event: &NewEvent) -> Result<Emitted> {
        let event = event.clone().tenant(self.reach.owner());
        let emitted = store::event::emit(&self.session, &event, event.checked()?).await?;
        let after = json!({"name": event.name});
        self.record_if(!emitted.is_duplicate, Act::new(Action::EventEmit, emitted.id).after(&after)).await?;
        Ok(emitted)
    }

    /// Retries an event at a trigger that could not be rendered or whose job was rejected, with the current version of
    /// the trigger. Returns the outcome, or none if the event had not failed at this trigger.
    pub async fn retry_event(&self, event: Uuid, trigger: Uuid) -> Result<Option<EventTrigger>> {
        let tenant = self.reach.owner();
        let stored = one(&self.session, tenant, event).await?.ok_or(Error::Unknown { what: "event" })?;
        let trigger = known(&self.session, tenant, trigger).await?;
        let pending = Pending {
            tenant,
            id: stored.id,
            name: stored.name,
            payload: stored.payload,
            emitted_at: stored.emitted_at,
            after: None,
        };
        let rules = PayloadRules::read(&self.session, &trigger.fields.definition_key).await?;
        let checked = job_of_event(&trigger, rules, pending).await;
        let made = trigger::matched(self.queue.new_id(), &trigger, checked)?;
        let made = store::event::retry(&self.session, tenant, event, &made).await?;
        self.was_recorded();
        Ok(made)
    }
}

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// use windlass::events::EventFilter;
///
/// let (events, has_more) = reading.events(&EventFilter::default().name("folder.updated")).await?;
/// if let Some(newest) = events.first() {
///     let same = reading.event(newest.id).await?;
///     println!("{:?}, more: {has_more}", same.map(|event| event.triggers));
/// }
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// One page of events with the outcomes at their triggers, newest first, and whether there are more. A page ends
    /// after about 4 MiB.
    pub async fn events(&self, filter: &EventFilter) -> Result<(Vec<Event>, bool)> {
        let which = WhichEvents {
            id: None,
            name: filter.name.as_deref(),
            older_than: filter.older_than,
            only_failed: filter.only_failed,
            limit: filter.limit.min(MAX_PAGE).into(),
            offset: filter.offset.into(),
        };
        let (events, has_more) = store::event::list(&self.session, self.reach.owner(), &which).await?;
        Ok((events.into_iter().map(shown).collect(), has_more))
    }

    /// One event; none if the tenant has no event with this id.
    pub async fn event(&self, id: Uuid) -> Result<Option<Event>> {
        Ok(one(&self.session, self.reach.owner(), id).await?.map(shown))
    }
}

/// The event without the values that are redacted when it is shown.
fn shown(event: Event) -> Event {
    Event { payload: redact::payload(&event.payload), ..event }
}

async fn one(session: &Session, tenant: Uuid, id: Uuid) -> Result<Option<Event>> {
    let which = WhichEvents { id: Some(id), limit: 1, ..WhichEvents::default() };
    Ok(store::event::list(session, tenant, &which).await?.0.pop())
}
