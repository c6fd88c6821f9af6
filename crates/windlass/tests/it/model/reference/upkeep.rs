//! What the keeper and the operator do.

use std::collections::BTreeSet;

use windlass::{IfUnmet, State};

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
        let passed: Vec<(usize, bool)> =
            self.expiry.iter().filter(|(_, at)| **at <= self.now).map(|(key, _)| *key).collect();
        self.expiry.retain(|_, at| *at > self.now);
        let is_concerned =
            |&(job, only_unstarted): &(usize, bool)| !only_unstarted || self.jobs[job].outcomes.is_empty();
        let looked: Vec<usize> = passed.into_iter().filter(is_concerned).map(|(job, _)| job).collect();
        let mut ended: BTreeSet<usize> = looked.iter().copied().collect();
        ended.retain(|&job| self.end_waiting(job, State::Failed, "expired"));
        self.unblock(ended);
        format!("looked at {}", looked.len())
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
        let request = self.jobs[job].request.clone();
        if let Some((key, _)) = request.dedupe {
            match (self.holder((tenant, key)), self.dedupe.get(&(tenant, key))) {
                (Some(holder), Some(slot)) if slot.until.is_none() && holder != job => {
                    return format!("duplicate {holder}");
                }
                // A key with an end counts when a job is accepted, and a retry accepts none.
                (Some(_), _) => self.jobs[job].holds_dedupe = false,
                (None, _) => {
                    self.dedupe.insert((tenant, key), Slot { job, until: None, released_at_end: true });
                    self.jobs[job].holds_dedupe = true;
                }
            }
        }
        if let Some(key) = request.ordering {
            let is_blocked = |job: usize| self.jobs[job].place.state() == Some(State::Blocked);
            let mut waiting = self.needs.keys().filter(|(need, _)| *need == job).map(|(_, waiting)| *waiting);
            let is_head = waiting.any(|waiting| self.share_key(job, waiting) && is_blocked(waiting));
            if !is_head {
                let last = self.ordering.insert((tenant, key), job);
                if let Some(last) = last.filter(|&last| last != job && self.holds_key(last)) {
                    self.needs.entry((last, job)).or_insert(IfUnmet::Run);
                }
            }
        }
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
        let is_open = |until: Option<i64>| until.is_none_or(|until| until > self.now);
        self.dedupe.retain(|_, slot| slot.job != job || (keeps_promises && is_open(slot.until)));
        self.expiry.retain(|(of, _), _| *of != job);
        self.forget_needs(job);
        self.jobs[job].place = Place::Nowhere;
        self.unblock(BTreeSet::from([job]));
        "purged 1".to_owned()
    }
}
