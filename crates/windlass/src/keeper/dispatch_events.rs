//! Dispatches events: which triggers match, with which payload, and so which jobs. Reads without a lock, decides in pure
//! code, and applies the decision with one statement in which the event leaves the outbox, so that it happens once
//! however often a dispatcher dies in between.
//!
//! Tenants take turns, and each gets an equal share of a round. A round is bounded in events, triggers, matches and bytes,
//! so an event that matches very many triggers takes several rounds: the outbox holds how far it has come. What fails is
//! set aside with its reason ([`apply`]), and the rest goes on.

mod apply;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::{Round, leader};
use crate::enqueue::plan::checked_route;
use crate::error::Result;
use crate::model::event::Pending;
use crate::model::trigger::{
    Conditions, MOST_BYTES, MOST_MATCHES, Match, Trigger, fits, job_of, matched, matches_name,
};
use crate::queue::Queue;
use crate::store;
use crate::store::event::{DecidedEvent, OutboxShare, Triggers};
use crate::store::trigger::Unreadable;
use crate::text;

/// What one round may take: of all tenants together, and at least one of each kind for every tenant in it.
const MOST_EVENTS: i32 = 200;
const MOST_TENANTS: i32 = 20;
/// What is read of one tenant's triggers in one round.
const MOST_TRIGGERS: i32 = 500;
const MOST_TRIGGER_BYTES: i32 = 1 << 20;
/// How long emitters ring after a round that found nothing; the next such round asks again.
const RINGS_FOR: Duration = Duration::from_secs(3);

/// Whose turn was the last one.
#[derive(Debug, Default)]
pub(super) struct LastTenant(Mutex<Uuid>);

pub(super) async fn run_once(queue: &Queue, holder: Uuid, turn: &LastTenant) -> Result<Round> {
    let database = queue.database();
    let patience = leader::patience(database, "dispatch", holder).await?;
    let after = *turn.0.lock().unwrap_or_else(PoisonError::into_inner);
    let share = OutboxShare { events: MOST_EVENTS, bytes: MOST_BYTES.into(), tenants: MOST_TENANTS, after };
    let outbox = store::event::pending(database, patience, &share, RINGS_FOR).await?;
    for (tenant, event, problem) in &outbox.unreadable {
        apply::hold_back(database, *tenant, *event, problem).await?;
    }
    let groups: Vec<&[Pending]> = outbox.events.chunk_by(|one, next| one.tenant == next.tenant).collect();
    let Some(last) = groups.last() else {
        let next = (!patience.is_zero()).then_some(patience);
        return Ok(Round { next, is_full: !outbox.unreadable.is_empty(), ..Round::default() });
    };
    *turn.0.lock().unwrap_or_else(PoisonError::into_inner) = last[0].tenant;

    let triggers = triggers(queue, &groups).await?;
    let mut decided = Vec::with_capacity(outbox.events.len());
    let mut is_full = outbox.has_more;
    for events in &groups {
        let Some(triggers) = triggers.get(&events[0].tenant) else { continue };
        let is_done =
            decide(queue, events, triggers, &mut RoundBudget::among(groups.len()), &mut decided).await?;
        is_full |= !is_done;
    }
    let (dispatched, fired) = apply::apply(database, decided).await?;
    metrics::counter!("windlass_events_dispatched_total").increment(dispatched);
    tracing::debug!(dispatched, fired, "events dispatched");
    Ok(Round { moved: dispatched, is_full: is_full && dispatched > 0, next: None })
}

/// The next triggers of each tenant. All events of one have come equally far.
async fn triggers(queue: &Queue, groups: &[&[Pending]]) -> Result<HashMap<Uuid, Triggers>> {
    let (tenants, afters): (Vec<Uuid>, Vec<Uuid>) =
        groups.iter().map(|events| (events[0].tenant, events[0].after.unwrap_or_default())).unzip();
    let database = queue.database();
    let mut all =
        store::event::triggers(database, &tenants, &afters, MOST_TRIGGERS, MOST_TRIGGER_BYTES).await?;
    for of_tenant in all.values_mut() {
        let found = std::mem::take(&mut of_tenant.found);
        of_tenant.found = found.into_iter().map(|one| one.and_then(with_readable_conditions)).collect();
        for bad in of_tenant.found.iter().filter_map(|one| one.as_ref().err()) {
            store::trouble::note(database, "dispatch", bad.tenant, bad.id, &bad.reason).await?;
        }
    }
    Ok(all)
}

/// What is left of a tenant's share of a round.
struct RoundBudget {
    matches: usize,
    bytes: usize,
    is_unused: bool,
}

impl RoundBudget {
    fn among(tenants: usize) -> Self {
        Self { matches: MOST_MATCHES / tenants, bytes: MOST_BYTES as usize / tenants, is_unused: true }
    }

    /// Whether one more fits. The first one always does, so that every tenant comes further.
    fn takes(&mut self, one: &Match) -> bool {
        let bytes = one.made.as_ref().map_or(0, |made| made.payload.len());
        if !self.is_unused && (self.matches == 0 || self.bytes < bytes) {
            return false;
        }
        self.is_unused = false;
        self.matches = self.matches.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

/// Decides about one tenant's events as far as there is room. Answers whether all of it is done.
async fn decide(
    queue: &Queue,
    events: &[Pending],
    triggers: &Triggers,
    room: &mut RoundBudget,
    decided: &mut Vec<DecidedEvent>,
) -> Result<bool> {
    for event in events {
        let mut matches = Vec::new();
        let mut done = event.after;
        for trigger in &triggers.found {
            let (id, one) = match trigger {
                Ok(trigger) if fits(trigger, &event.name, &event.payload) => {
                    (trigger.id, Some(make(queue, event, trigger).await?))
                }
                Ok(trigger) => (trigger.id, None),
                Err(bad) => (bad.id, failed(bad, event)),
            };
            if let Some(one) = one {
                if !room.takes(&one) {
                    if done != event.after {
                        decided.push(about(event, done, matches));
                    }
                    return Ok(false);
                }
                matches.push(one);
            }
            done = Some(id);
        }
        let until = if triggers.is_last { None } else { triggers.until };
        decided.push(about(event, until, matches));
    }
    Ok(triggers.is_last)
}

fn about(event: &Pending, until: Option<Uuid>, matches: Vec<Match>) -> DecidedEvent {
    DecidedEvent { tenant: event.tenant, event: event.id, after: event.after, until, matches }
}

/// Nobody can tell which events are for a trigger whose conditions cannot be read.
fn with_readable_conditions(trigger: Trigger) -> Result<Trigger, Unreadable> {
    match Conditions::parse(&trigger.fields.conditions) {
        Ok(_) => Ok(trigger),
        Err(error) => Err(Unreadable {
            tenant: trigger.tenant_id,
            id: trigger.id,
            generation: trigger.generation,
            event_name: trigger.fields.event_name,
            reason: error.to_string(),
        }),
    }
}

/// An event that may be for a trigger that cannot be read: kept with the reason, so that it can be dispatched again later.
fn failed(bad: &Unreadable, event: &Pending) -> Option<Match> {
    let is_meant = bad.tenant == event.tenant
        && bad.event_name.as_deref().is_some_and(|pattern| matches_name(pattern, &event.name));
    is_meant.then(|| Match {
        trigger: bad.id,
        generation: bad.generation,
        key: String::new(),
        window: 0,
        made: Err(text::storable(format!("the trigger cannot be read: {}", bad.reason).as_bytes(), 500)),
    })
}

/// The job that an event makes at a trigger it fits, or why there can be none.
async fn make(queue: &Queue, event: &Pending, trigger: &Trigger) -> Result<Match> {
    let checked = match job_of(trigger, event) {
        Ok(job) => checked_route(queue, &job).await.map(|_| job),
        Err(error) => Err(error),
    };
    matched(queue.new_id(), trigger, checked)
}
