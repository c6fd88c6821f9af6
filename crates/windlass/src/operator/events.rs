//! Reading events with what they caused, trying out an event, and trying again what failed.

use uuid::Uuid;

use crate::emit::NewEvent;
use crate::error::{Error, Result};
use crate::keeper;
use crate::queue::Queue;
use crate::record::{Event, EventTrigger, WouldFire};
use crate::store;
use crate::store::event::{Pending, Which};
use crate::trigger::TriggerType;

const LARGEST_PAGE: i64 = 500;

/// Which events of a tenant, newest first.
#[derive(Debug, Clone)]
pub struct EventFilter {
    pub name: Option<String>,
    /// The last id of the page before.
    pub older_than: Option<Uuid>,
    /// Only those at which a trigger failed.
    pub only_failed: bool,
    pub limit: u16,
    pub offset: u32,
}

impl Default for EventFilter {
    fn default() -> Self {
        Self { name: None, older_than: None, only_failed: false, limit: 50, offset: 0 }
    }
}

impl Queue {
    pub async fn events(&self, tenant: Uuid, filter: &EventFilter) -> Result<Vec<Event>> {
        let which = Which {
            id: None,
            name: filter.name.as_deref(),
            older_than: filter.older_than,
            only_failed: filter.only_failed,
            limit: i64::from(filter.limit).min(LARGEST_PAGE),
            offset: filter.offset.into(),
        };
        store::event::list(self.database(), tenant, &which).await
    }

    /// One event, or nothing if the tenant has none with this id.
    pub async fn event(&self, tenant: Uuid, id: Uuid) -> Result<Option<Event>> {
        let which = Which { id: Some(id), limit: 1, ..Which::default() };
        Ok(store::event::list(self.database(), tenant, &which).await?.pop())
    }

    /// Which triggers an event would fire, with which payload. Writes nothing.
    pub async fn dry_run(&self, tenant: Uuid, event: &NewEvent) -> Result<Vec<WouldFire>> {
        let (now, _) = store::trigger::now(self.database(), tenant).await?;
        let payload = event.payload_value()?;
        let pending = Pending { tenant, id: Uuid::nil(), name: event.name.clone(), payload, emitted_at: now };
        let mut would = Vec::new();
        let mut after = None;
        loop {
            let page = self.triggers(tenant, Some(TriggerType::Event), after, LARGEST_PAGE as u16, 0).await?;
            for trigger in &page {
                if !trigger.fields.is_enabled || !keeper::fits(trigger, &pending.name, &pending.payload) {
                    continue;
                }
                let made = keeper::make(self, 1, &pending, trigger).await?.made;
                let rendered = keeper::render(trigger, &pending).ok();
                would.push(WouldFire {
                    trigger_id: trigger.id,
                    label: trigger.fields.label.clone(),
                    definition_key: trigger.fields.definition_key.clone(),
                    payload: rendered,
                    reason: made.err(),
                });
            }
            after = page.last().map(|trigger| trigger.id);
            if page.len() < LARGEST_PAGE as usize {
                return Ok(would);
            }
        }
    }

    /// Once more for a trigger that could not be rendered, or whose job was refused, as the trigger is now. Answers what
    /// became of it, or nothing if it had not failed.
    pub async fn retry_event(
        &self,
        tenant: Uuid,
        event: Uuid,
        trigger: Uuid,
        actor: &str,
    ) -> Result<Option<EventTrigger>> {
        let stored = self.event(tenant, event).await?.ok_or(Error::UnknownEvent { event })?;
        let trigger = self.known_trigger(tenant, trigger).await?;
        let pending = Pending {
            tenant,
            id: stored.id,
            name: stored.name,
            payload: stored.payload,
            emitted_at: stored.emitted_at,
        };
        let one = keeper::make(self, 1, &pending, &trigger).await?;
        store::event::retry(self.database(), tenant, event, &one, actor).await
    }
}
