//! Decides about the events of one tenant: which triggers match, and with which payloads. It only computes, and its cost
//! depends on the tenant's templates, so it runs on a blocking thread. It stops where the tenant's share of the round
//! ends, and whenever it needs a route that is not known yet. The conditions that it compares count too: otherwise
//! events that match nothing would cost their tenant nothing.

use std::collections::HashMap;

use uuid::Uuid;

use crate::enqueue::plan::check_payload;
use crate::error::{Error, Result};
use crate::keeper::share::RoundShare;
use crate::model::event::Pending;
use crate::model::new_job::NewJob;
use crate::model::trigger::{
    Conditions, Match, Rendered, Renderer, Trigger, job_with, matched, matches_name,
};
use crate::queue::{CheckedRoute, Queue};
use crate::store::event::{DecidedEvent, Triggers};
use crate::store::trigger::Unreadable;
use crate::text;

/// The events of one tenant, and what was decided about them so far.
pub(super) struct Decider {
    events: Vec<Pending>,
    triggers: Vec<Result<ParsedTrigger, Unreadable>>,
    /// The last trigger that was read, unless there are no more.
    until: Option<Uuid>,
    /// The routes of the definitions that were needed.
    pub(super) routes: HashMap<String, Result<CheckedRoute>>,
    share: RoundShare,
    /// The current trigger of the current event, which is that after the decided ones; its matches, and the last
    /// trigger that was processed.
    next: usize,
    /// The conditions of the current trigger hold, and its route was needed.
    is_match: bool,
    matches: Vec<Match>,
    done: Option<Uuid>,
    pub(super) decided: Vec<DecidedEvent>,
    /// The events that need a route that another transaction has locked.
    pub(super) locked: Vec<Uuid>,
    /// Nothing was left for the next round.
    pub(super) is_done: bool,
}

/// A trigger, parsed once for all events.
struct ParsedTrigger {
    trigger: Trigger,
    conditions: Conditions,
    renderer: Option<Result<Renderer>>,
}

/// What a step of the decision found at one trigger.
enum AtTrigger {
    NoMatch,
    /// A match, and the size of what was rendered for it.
    Match(Match, usize),
    /// The share of the tenant has no room for it.
    NoRoom,
    /// The route of this definition is needed first.
    Needs(String),
    /// Another transaction has locked the route.
    Locked,
}

impl Decider {
    pub(super) fn new(events: Vec<Pending>, triggers: Triggers, share: RoundShare) -> Self {
        let known = |trigger: Trigger| match Conditions::parse(&trigger.fields.conditions) {
            Ok(conditions) => Ok(ParsedTrigger { trigger, conditions, renderer: None }),
            // It is unknown which events it matches.
            Err(error) => Err(Unreadable {
                tenant: trigger.tenant_id,
                id: trigger.id,
                generation: trigger.generation,
                event_name: trigger.fields.event_name,
                reason: error.to_string(),
            }),
        };
        Self {
            triggers: triggers.found.into_iter().map(|one| one.and_then(known)).collect(),
            until: if triggers.is_last { None } else { triggers.until },
            routes: HashMap::new(),
            share,
            next: 0,
            is_match: false,
            matches: Vec::new(),
            done: events.first().and_then(|event| event.after),
            decided: Vec::with_capacity(events.len()),
            locked: Vec::new(),
            is_done: triggers.is_last,
            events,
        }
    }

    /// The tenant of the events.
    pub(super) fn tenant(&self) -> Uuid {
        self.events.first().map_or_else(Uuid::nil, |event| event.tenant)
    }

    /// The triggers that cannot be read.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.triggers.iter().filter_map(|one| one.as_ref().err())
    }

    /// Continues. Returns the key of the definition whose route is needed to go on, or none at the end.
    pub(super) fn advance(mut self, queue: &Queue) -> Result<(Self, Option<String>)> {
        'events: while self.decided.len() < self.events.len() {
            while self.next < self.triggers.len() {
                match self.at_trigger(queue)? {
                    AtTrigger::Needs(key) => return Ok((self, Some(key))),
                    AtTrigger::NoRoom => {
                        self.stop();
                        return Ok((self, None));
                    }
                    AtTrigger::Locked => {
                        self.leave_out();
                        continue 'events;
                    }
                    AtTrigger::NoMatch => {}
                    AtTrigger::Match(one, bytes) => {
                        self.share.take(bytes);
                        self.matches.push(one);
                    }
                }
                self.done = Some(match &self.triggers[self.next] {
                    Ok(known) => known.trigger.id,
                    Err(bad) => bad.id,
                });
                self.next += 1;
                self.is_match = false;
            }
            self.push(self.until);
        }
        Ok((self, None))
    }

    /// Records the progress of the current event; the next round continues there.
    fn stop(&mut self) {
        self.is_done = false;
        if self.done != self.events[self.decided.len()].after {
            self.push(self.done);
        }
    }

    /// Leaves the current event as it was.
    fn leave_out(&mut self) {
        let event = self.events.remove(self.decided.len());
        self.locked.push(event.id);
        self.matches.clear();
        self.next = 0;
        self.is_match = false;
        self.done = self.events.get(self.decided.len()).and_then(|event| event.after);
    }

    fn push(&mut self, until: Option<Uuid>) {
        let event = &self.events[self.decided.len()];
        let matches = std::mem::take(&mut self.matches);
        let (tenant, after) = (event.tenant, event.after);
        self.decided.push(DecidedEvent { tenant, event: event.id, after, until, matches });
        self.next = 0;
        self.done = self.events.get(self.decided.len()).and_then(|event| event.after);
    }

    fn at_trigger(&mut self, queue: &Queue) -> Result<AtTrigger> {
        let event = &self.events[self.decided.len()];
        let known = match &mut self.triggers[self.next] {
            Ok(known) => known,
            Err(bad) => {
                return Ok(match (failed(bad, event), self.share.room()) {
                    (None, _) => AtTrigger::NoMatch,
                    (Some(_), None) => AtTrigger::NoRoom,
                    (Some(one), Some(_)) => AtTrigger::Match(one, 0),
                });
            }
        };
        let fields = &known.trigger.fields;
        if !fields.event_name.as_deref().is_some_and(|pattern| matches_name(pattern, &event.name)) {
            return Ok(AtTrigger::NoMatch);
        }
        if !self.is_match {
            if !self.share.has_bytes() {
                return Ok(AtTrigger::NoRoom);
            }
            self.share.examine(known.conditions.bytes());
            self.is_match = known.conditions.hold(&event.payload);
        }
        if !self.is_match {
            return Ok(AtTrigger::NoMatch);
        }
        let Some(room) = self.share.room() else { return Ok(AtTrigger::NoRoom) };
        let Some(route) = self.routes.get(&fields.definition_key) else {
            return Ok(AtTrigger::Needs(fields.definition_key.clone()));
        };
        if route.as_ref().is_err_and(Error::is_lock_timeout) {
            return Ok(AtTrigger::Locked);
        }
        let renderer = known.renderer.get_or_insert_with(|| Renderer::of(&known.trigger));
        let rendered = match renderer {
            Ok(renderer) => renderer.event(event, room),
            Err(error) => Some(Rendered::nothing(error.clone())),
        };
        let Some(Rendered { payload, bytes }) = rendered else { return Ok(AtTrigger::NoRoom) };
        let checked = payload.and_then(|payload| checked(job_with(&known.trigger, &payload), route));
        Ok(AtTrigger::Match(matched(queue.new_id(), &known.trigger, checked)?, bytes))
    }
}

fn checked(job: NewJob, route: &Result<CheckedRoute>) -> Result<NewJob> {
    job.check()?;
    check_payload(&job, route.as_ref().map_err(Clone::clone)?)?;
    Ok(job)
}

/// An event that may match a trigger that cannot be read: stored with the reason, so that it can be dispatched again
/// later.
fn failed(bad: &Unreadable, event: &Pending) -> Option<Match> {
    let is_meant = bad.tenant == event.tenant
        && bad.event_name.as_deref().is_some_and(|pattern| matches_name(pattern, &event.name));
    is_meant.then(|| Match {
        trigger: bad.id,
        generation: bad.generation,
        key: String::new(),
        window: 0,
        made: Err(text::storable(format!("invalid trigger: {}", bad.reason).as_bytes(), 500)),
    })
}
