//! Dispatches events: finds the matching triggers, renders the payloads and creates the jobs. Reads without a lock,
//! decides in pure code, and applies the decision with one statement in which the event leaves the outbox, so that it
//! happens once, regardless of how often a dispatcher crashes in between.
//!
//! Tenants take turns, and each gets an equal share of a round. A round is limited in events, triggers, matches and
//! bytes, so an event that matches very many triggers takes several rounds: the outbox contains its progress. Nothing is
//! rendered beyond the share of its tenant ([`decide`]). An event that fails, or whose route an open transaction of its
//! tenant has locked, is delayed with the reason ([`apply`]), and the others continue.

mod apply;
mod decide;

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use super::share::RoundShare;
use super::{Round, leader};
use crate::blocking;
use crate::error::{Error, Result};
use crate::model::event::Pending;
use crate::model::trigger::{MAX_BYTES, MAX_MATCHES};
use crate::queue::Queue;
use crate::store;
use crate::store::event::{DecidedEvent, OutboxShare, Triggers};
use decide::Decider;

/// The limits of one round: for all tenants together, and at least one of each kind for every tenant in it.
const MAX_EVENTS: i32 = 200;
const MAX_TENANTS: i32 = 20;
/// The maximum that is read of one tenant's triggers in one round.
const MAX_TRIGGERS: i32 = 500;
const MAX_TRIGGER_BYTES: i32 = 1 << 20;
/// The events of a tenant with no more jobs and bytes of payloads than this are written before those of the others.
const LIGHT_JOBS: usize = 20;
const LIGHT_BYTES: usize = 64 << 10;
/// The jobs of a round are divided among at least this many tenants: with a quota, each takes milliseconds, and the event of
/// another tenant waits for the end of the round.
const FEWEST_TENANTS: usize = 4;
/// How long emitters send notifications after a round that found nothing; the next such round requests them again.
const NOTIFIES_FOR: Duration = Duration::from_secs(3);

/// The tenant of the last turn.
#[derive(Debug, Default)]
pub(super) struct LastTenant(Mutex<Uuid>);

pub(super) async fn run_once(queue: &Queue, holder: Uuid, turn: &LastTenant) -> Result<Round> {
    let database = queue.database();
    let patience = leader::patience(database, "dispatch", holder).await?;
    let after = *turn.0.lock();
    let share = OutboxShare { events: MAX_EVENTS, bytes: MAX_BYTES.into(), tenants: MAX_TENANTS, after };
    let outbox = store::event::pending(database, patience, &share, NOTIFIES_FOR).await?;
    for (tenant, event, problem) in &outbox.unreadable {
        apply::hold_back(database, *tenant, *event, problem).await?;
    }
    let mut groups: Vec<Vec<Pending>> = Vec::new();
    for event in outbox.events {
        match groups.last_mut() {
            Some(group) if group[0].tenant == event.tenant => group.push(event),
            _ => groups.push(vec![event]),
        }
    }
    let Some(last) = groups.last() else {
        let next = (!patience.is_zero()).then_some(patience);
        return Ok(Round { next, is_full: !outbox.unreadable.is_empty(), ..Round::default() });
    };
    *turn.0.lock() = last[0].tenant;

    let mut triggers = triggers(queue, &groups).await?;
    let tenants = groups.len();
    let (mut light, mut heavy) = (Vec::new(), Vec::new());
    let mut is_full = outbox.has_more;
    for events in groups {
        let Some(triggers) = triggers.remove(&events[0].tenant) else { continue };
        let share = RoundShare::among(MAX_MATCHES, tenants.max(FEWEST_TENANTS));
        let (decided, is_done) = decide(queue, events, triggers, share).await?;
        is_full |= !is_done;
        let decided_before = if is_light(&decided) { &mut light } else { &mut heavy };
        decided_before.extend(decided);
    }
    let (mut dispatched, mut fired) = (0, 0);
    for decided in [light, heavy] {
        let (more_dispatched, more_fired) = apply::apply(database, decided).await?;
        dispatched += more_dispatched;
        fired += more_fired;
    }
    metrics::counter!("windlass_events_dispatched_total").increment(dispatched);
    tracing::debug!(dispatched, fired, "events dispatched");
    Ok(Round { moved: dispatched, is_full: is_full && dispatched > 0, next: None })
}

/// Decides about one tenant's events, as far as its share allows. Returns also whether all of them are done.
async fn decide(
    queue: &Queue,
    events: Vec<Pending>,
    triggers: Triggers,
    share: RoundShare,
) -> Result<(Vec<DecidedEvent>, bool)> {
    // Conditions can be large too, so the triggers are parsed on the same thread, once for all events.
    let mut decider = blocking::run(move || Decider::new(events, triggers, share)).await;
    for bad in decider.unreadable() {
        store::problem::note(queue.database(), "dispatch", bad.tenant, bad.id, &bad.reason).await?;
    }
    let tenant = decider.tenant();
    let mut locked: Vec<Error> = Vec::new();
    loop {
        let ids = queue.clone();
        let (advanced, needed) = blocking::run(move || decider.advance(&ids)).await?;
        decider = advanced;
        let Some(key) = needed else { break };
        let route = match locked.get(apply::MAX_LOCKED - 1) {
            Some(error) => Err(error.clone()),
            None => queue.keeper_route(tenant, &key).await,
        };
        match &route {
            // The events that need this route wait, and the others of the tenant continue.
            Err(error) if error.is_lock_timeout() => locked.push(error.clone()),
            Err(error) if error.is_transient() => return Err(error.clone()),
            Ok(_) | Err(_) => {}
        }
        decider.routes.insert(key, route);
    }
    for event in decider.locked {
        apply::hold_back_locked(queue.database(), tenant, event).await?;
    }
    Ok((decider.decided, decider.is_done))
}

fn is_light(decided: &[DecidedEvent]) -> bool {
    let made = || decided.iter().flat_map(|one| &one.matches).filter_map(|one| one.made.as_ref().ok());
    made().count() <= LIGHT_JOBS && made().map(|made| made.payload.len()).sum::<usize>() <= LIGHT_BYTES
}

/// Returns the next triggers of each tenant. All events of a tenant have processed the same triggers.
async fn triggers(queue: &Queue, groups: &[Vec<Pending>]) -> Result<HashMap<Uuid, Triggers>> {
    let (tenants, afters): (Vec<Uuid>, Vec<Uuid>) =
        groups.iter().map(|events| (events[0].tenant, events[0].after.unwrap_or_default())).unzip();
    let database = queue.database();
    store::event::triggers(database, &tenants, &afters, MAX_TRIGGERS, MAX_TRIGGER_BYTES).await
}
