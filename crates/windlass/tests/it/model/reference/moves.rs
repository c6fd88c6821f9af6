//! The transitions of a job, of which every operation consists.

use std::collections::BTreeSet;

use windlass::internals::settle::{Budget, Next, Outcome, after_cancel};
use windlass::internals::state::allowed;
use windlass::job::{IfUnmet, State};

use super::{Due, Job, Key, Place, Reference, ticks};
use crate::model::definition::DEFINITIONS;
use crate::model::operation::TICK;

impl Reference {
    /// Checks the dependents of these again. Its decisions may decide others, wave by wave.
    pub(super) fn unblock(&mut self, mut ended: BTreeSet<usize>) {
        while !ended.is_empty() {
            let before = self.needs.clone();
            let (mut next, mut canceled, mut waiting) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for (&(need, job), &if_unmet) in before.iter().filter(|((need, _), _)| ended.contains(need)) {
                let met = match (self.jobs[need].place.state(), if_unmet) {
                    (Some(state), _) if !state.is_terminal() => continue,
                    (Some(State::Succeeded), _) | (_, IfUnmet::Run) => true,
                    // A purge of a dependency counts as a cancel.
                    (state, IfUnmet::Wait) => matches!(state, None | Some(State::Canceled)),
                    _ => false,
                };
                waiting.insert(job);
                if !met && if_unmet != IfUnmet::Cancel {
                    continue;
                }
                if !met {
                    canceled.insert(job);
                }
                // The open dependencies of the ended job precede its dependents, even if a dependent is canceled: the next job of
                // their ordering key waits for them in turn.
                for &(deeper, _) in before.keys().filter(|&&(deeper, link)| link == need && deeper != job) {
                    self.needs.entry((deeper, job)).or_insert(if_unmet);
                    next.insert(deeper);
                }
                self.needs.remove(&(need, job));
            }
            for &job in &canceled {
                self.end_waiting(job, State::Canceled, "dependency");
            }
            for job in waiting {
                match self.jobs[job].place {
                    Place::Blocked(scheduled_for) if self.needs_of(job).is_empty() => {
                        self.start(job, scheduled_for);
                    }
                    _ => {}
                }
            }
            ended = next.into_iter().chain(canceled).collect();
        }
    }

    pub(super) fn end(&mut self, job: usize, outcome: Outcome) {
        let is_canceled = matches!(self.jobs[job].place, Place::Running { is_canceled: true, .. });
        let at = self.instant();
        let it = &mut self.jobs[job];
        let definition = &DEFINITIONS[it.request.definition];
        let Job { attempt, failures, lost, snoozes, .. } = *it;
        let budget = Budget {
            attempt,
            failures,
            lost,
            snoozes,
            max_attempts: it.request.max_attempts.unwrap_or(definition.max_attempts),
            max_lost: 0,
            max_snoozes: 0,
            cancel_requested: false,
            remaining: it.deadline.map(|deadline| TICK * u32::try_from(deadline - self.now).unwrap_or(0)),
        };
        let decided = definition.decide(&budget, outcome);
        let decided = if is_canceled { after_cancel(decided) } else { decided };
        it.outcomes.push(decided.attempt_outcome);
        let reason = decided.reason.map(|reason| reason.as_str());
        match decided.next {
            Next::Queued => self.start(job, None),
            Next::Scheduled { after } => {
                (it.failures, it.lost, it.snoozes) = (decided.failures, decided.lost, decided.snoozes);
                let due = (self.now + ticks(after), at);
                self.put(job, Place::Scheduled(due));
            }
            Next::Succeeded | Next::Failed | Next::DeadLetter | Next::Canceled => {
                self.free_dedupe(job);
                self.put(job, Place::Ended { state: decided.next.state(), reason, by_attempt: attempt });
            }
        }
    }

    /// Ends a job that is not running; returns whether it was one.
    pub(super) fn end_waiting(&mut self, job: usize, state: State, reason: &'static str) -> bool {
        let state_now = self.jobs[job].place.state();
        let waits = state_now.is_some_and(|now| !now.is_terminal() && now != State::Running);
        if waits {
            self.free_dedupe(job);
            self.forget_needs(job);
            self.put(job, Place::Ended { state, reason: Some(reason), by_attempt: 0 });
        }
        waits
    }

    pub(super) fn start(&mut self, job: usize, at: Option<Due>) {
        let place = match at {
            Some(due) if due.0 > self.now => Place::Scheduled(due),
            _ => Place::Queued(self.instant()),
        };
        self.put(job, place);
    }

    pub(super) fn put(&mut self, job: usize, place: Place) {
        let (from, to) = (self.jobs[job].place.state(), place.state());
        // Transitions that `03-lifecycle.md` does not list: a job that waited for others and for time, a deadline that passes
        // behind another job, and a retry behind another job of its ordering key.
        let is_beyond = match (from, to) {
            (Some(State::Blocked), Some(State::Scheduled | State::Failed)) => true,
            (Some(from), Some(State::Blocked)) => from.is_terminal(),
            _ => false,
        };
        let is_listed = to.is_some_and(|to| allowed(from, to));
        assert!(is_listed || is_beyond, "no job moves from {from:?} to {to:?}");
        self.jobs[job].place = place;
    }

    pub(super) fn instant(&mut self) -> u64 {
        self.instants += 1;
        self.instants
    }

    pub(super) fn named(&self, result: &str, job: usize) -> String {
        let state = self.jobs[job].place.state().map_or("gone", State::as_str);
        format!("{result} {job} {state}")
    }

    pub(super) fn holder(&self, key: Key) -> Option<usize> {
        let slot = self.dedupe.get(&key)?;
        slot.until.is_none_or(|until| until > self.now).then_some(slot.job)
    }

    pub(super) fn free_dedupe(&mut self, job: usize) {
        self.dedupe.retain(|_, slot| slot.job != job || !slot.released_at_end);
    }

    pub(super) fn needs_of(&self, job: usize) -> BTreeSet<usize> {
        self.needs.keys().filter(|(_, waiting)| *waiting == job).map(|(need, _)| *need).collect()
    }

    pub(super) fn forget_needs(&mut self, job: usize) {
        let mut needs = std::mem::take(&mut self.needs);
        needs.retain(|&(need, waiting), _| waiting != job || self.share_key(need, job));
        self.needs = needs;
    }

    pub(super) fn share_key(&self, one: usize, other: usize) -> bool {
        let key = |job: usize| self.jobs[job].request.ordering;
        key(one).is_some() && key(one) == key(other)
    }

    /// Its dependents, direct and indirect.
    pub(super) fn waiting_behind(&self, job: usize) -> BTreeSet<usize> {
        let (mut behind, mut next) = (BTreeSet::new(), vec![job]);
        while let Some(needed) = next.pop() {
            let waiting = self.needs.keys().filter(|(need, _)| *need == needed).map(|(_, waiting)| *waiting);
            next.extend(waiting.filter(|waiting| behind.insert(*waiting)));
        }
        behind
    }

    /// The jobs of its ordering key that a retried job must wait for: the last one, or those before it if that one depends on the
    /// job itself or was deleted.
    pub(super) fn places_before(&self, job: usize, last: usize, behind: &BTreeSet<usize>) -> BTreeSet<usize> {
        let (mut chain, mut next) = (BTreeSet::from([last]), vec![last]);
        while let Some(link) = next.pop() {
            if behind.contains(&link) || self.jobs[link].place == Place::Nowhere {
                next.extend(self.needs_of(link).into_iter().filter(|need| chain.insert(*need)));
            }
        }
        let is_there = |link: &usize| self.jobs[*link].place != Place::Nowhere;
        chain.retain(|link| {
            *link != job
                && !behind.contains(link)
                && is_there(link)
                && self.share_key(*link, job)
                && self.holds_key(*link)
        });
        chain
    }

    /// Whether the next job of its ordering key must wait for it, or for its dependencies.
    pub(super) fn holds_key(&self, job: usize) -> bool {
        self.jobs[job].place.state().is_some_and(|state| !state.is_terminal())
            || !self.needs_of(job).is_empty()
    }
}
