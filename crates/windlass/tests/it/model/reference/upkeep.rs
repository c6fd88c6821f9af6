//! The operations of the keeper and the operator.

use std::collections::BTreeSet;

use windlass::job::{IfUnmet, State};

use super::{Due, Place, Reference, Slot, tenant_of};

impl Reference {
    pub(super) fn promote(&mut self) -> String {
        let due = |job: usize| match self.jobs[job].place {
            Place::Scheduled(due) if due.0 <= self.now => Some((due, job)),
            _ => None,
        };
        let due: BTreeSet<(Due, usize)> = self.made().filter_map(due).collect();
        for &(_, job) in &due {
            self.start(job, None);
        }
        format!("promoted {}", due.len())
    }

    pub(super) fn expire(&mut self) -> String {
        // A running job keeps its deadline: its worker may release it.
        let is_kept = |job: usize, only_unstarted: bool| {
            !only_unstarted && matches!(self.jobs[job].place, Place::Running { .. })
        };
        let passed: Vec<(usize, bool)> = self
            .expiry
            .iter()
            .filter(|&(&(job, only_unstarted), at)| *at <= self.now && !is_kept(job, only_unstarted))
            .map(|(key, _)| *key)
            .collect();
        self.expiry.retain(|key, _| !passed.contains(key));
        let is_concerned =
            |&(job, only_unstarted): &(usize, bool)| !only_unstarted || self.jobs[job].outcomes.is_empty();
        let checked = passed.len();
        let mut ended: BTreeSet<usize> =
            passed.into_iter().filter(is_concerned).map(|(job, _)| job).collect();
        ended.retain(|&job| self.end_waiting(job, State::Failed, "expired"));
        self.unblock(ended);
        format!("looked at {checked}")
    }

    /// Whether a queued job must not start any more, by an instant that the keeper has not processed.
    pub(super) fn is_late(&self, job: usize) -> bool {
        self.expiry.iter().any(|(&(of, only_unstarted), &at)| {
            of == job && at <= self.now && (!only_unstarted || self.jobs[job].attempt == 0)
        })
    }

    /// How a claim handles late jobs.
    pub(super) fn fail_late(&mut self, mut late: BTreeSet<usize>) {
        let now = self.now;
        self.expiry.retain(|(job, _), at| *at > now || !late.contains(job));
        late.retain(|&job| self.end_waiting(job, State::Failed, "expired"));
        self.unblock(late);
    }

    pub(super) fn cancel(&mut self, job: usize) -> &'static str {
        match &mut self.jobs[job].place {
            Place::Nowhere => "missing",
            Place::Ended { .. } => "finished",
            Place::Running { is_canceled, .. } => {
                *is_canceled = true;
                "requested"
            }
            Place::Queued(_) | Place::Scheduled(_) | Place::Blocked(_) => {
                self.end_waiting(job, State::Canceled, "canceled");
                self.unblock(BTreeSet::from([job]));
                "canceled"
            }
        }
    }

    pub(super) fn retry(&mut self, job: usize) -> String {
        match self.jobs[job].place {
            Place::Nowhere => return "missing".to_owned(),
            Place::Ended { .. } => {}
            _ => return "not_finished".to_owned(),
        }
        let tenant = tenant_of(job);
        let now = self.now;
        if self.jobs[job].deadline.is_some_and(|deadline| deadline <= now) {
            return "past_deadline".to_owned();
        }
        let request = self.jobs[job].request.clone();
        if let Some((key, _)) = request.dedupe {
            match (self.holder((tenant, key)), self.dedupe.get(&(tenant, key))) {
                (Some(holder), Some(_)) if holder != job => return format!("duplicate {holder}"),
                // Its own key, with a window or forever.
                (Some(_), _) => self.jobs[job].holds_dedupe = false,
                (None, _) => {
                    self.dedupe.insert((tenant, key), Slot { job, until: None, released_at_end: true });
                    self.jobs[job].holds_dedupe = true;
                }
            }
        }
        if let Some(key) = request.ordering {
            let last = *self.ordering.entry((tenant, key)).or_insert(job);
            let behind = self.waiting_behind(job);
            for need in self.places_before(job, last, &behind) {
                self.needs.entry((need, job)).or_insert(IfUnmet::Run);
            }
            if !behind.contains(&last) {
                self.ordering.insert((tenant, key), job);
            }
        }
        self.expiry.retain(|&(of, _), at| of != job || *at > now); // it must run, though its time has passed
        let fresh = &mut self.jobs[job];
        (fresh.failures, fresh.lost, fresh.snoozes) = (0, 0, 0);
        if self.needs_of(job).is_empty() {
            self.start(job, None);
        } else {
            self.put(job, Place::Blocked(None));
            self.unblock(self.needs_of(job));
        }
        self.jobs[job].place.state().map_or_else(String::new, |state| state.to_string())
    }

    pub(super) fn purge(&mut self, job: usize, keeps_promises: bool) -> String {
        if self.jobs[job].place == Place::Nowhere {
            return "purged 0".to_owned();
        }
        let keeps_promises = keeps_promises && matches!(self.jobs[job].place, Place::Ended { .. });
        let is_blocked = |job: usize| matches!(self.jobs[job].place, Place::Blocked(_));
        if keeps_promises && self.needs.keys().any(|&(need, waiting)| need == job && is_blocked(waiting)) {
            return "purged 0".to_owned();
        }
        let is_open = |until: Option<i64>| until.is_none_or(|until| until > self.now);
        self.dedupe.retain(|_, slot| slot.job != job || (keeps_promises && is_open(slot.until)));
        self.expiry.retain(|(of, _), _| *of != job);
        self.forget_needs(job);
        self.jobs[job].place = Place::Nowhere;
        self.unblock(BTreeSet::from([job]));
        "purged 1".to_owned()
    }
}
