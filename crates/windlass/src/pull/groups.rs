//! Who waits for what. Claims that ask for the same stand in one group, first come first served, so that a job's arrival
//! concerns a few groups and not ten thousand requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::leftovers::Backlog;
use super::{Claim, PulledJob, ask};
use crate::lane::lines::{Foreign, Lines};
use crate::store::pull::{ClaimSlots, PullLane};
use crate::store::worker::ActiveLane;

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Interest {
    tenant: Option<Uuid>,
    keys: Vec<String>,
    queues: Vec<String>,
}

impl Interest {
    fn wants(&self, lane: &PullLane) -> bool {
        let names = |all: &[String], one: &str| {
            all.is_empty() || all.binary_search_by(|name| (**name).cmp(one)).is_ok()
        };
        self.tenant.is_none_or(|tenant| tenant == lane.tenant)
            && names(&self.keys, &lane.definition_key)
            && names(&self.queues, &lane.queue)
    }
}

/// One claim that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    interest: Interest,
    pub(super) worker: i32,
    limit: usize,
    lease_seconds: i32,
    waits: bool,
    reply: oneshot::Sender<Vec<PulledJob>>,
}

impl Waiter {
    pub(super) fn new(
        claim: Claim,
        tenant: Option<Uuid>,
        worker: i32,
        reply: oneshot::Sender<Vec<PulledJob>>,
    ) -> Self {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        let interest = Interest { tenant, keys: sorted(claim.definition_keys), queues: sorted(claim.queues) };
        let lease_seconds = ask::whole_seconds(claim.lease);
        Self { interest, worker, limit: claim.limit, lease_seconds, waits: !claim.wait.is_zero(), reply }
    }

    /// Hands the jobs over, or gives them back if nobody waits any more.
    pub(super) fn answer(self, jobs: Vec<PulledJob>) -> Result<(), Vec<PulledJob>> {
        self.reply.send(jobs)
    }
}

/// The claims that ask for one thing, and where that is found.
pub(super) struct Group {
    pub(super) waiters: VecDeque<Waiter>,
    pub(super) lines: Lines,
    pub(super) backlog: Backlog,
    /// How many jobs are claimed for it at once: fewer while they are large.
    pub(super) most: usize,
    last_used: Instant,
}

impl Group {
    /// One slot for each job that may be given out now, dealt round among those who wait, and whose each is.
    pub(super) fn slots(&mut self, is_quiet: impl Fn(i32) -> bool) -> (ClaimSlots, Vec<usize>) {
        let most = self.most;
        self.waiters.retain(|waiter| !waiter.reply.is_closed());
        let mut slots = ClaimSlots::default();
        let mut owners = Vec::new();
        let able: Vec<usize> =
            (0..self.waiters.len()).filter(|&n| !is_quiet(self.waiters[n].worker)).take(most).collect();
        let mut round = 0;
        while owners.len() < most {
            let before = owners.len();
            for &position in able.iter().filter(|&&position| self.waiters[position].limit > round) {
                if owners.len() == most {
                    break;
                }
                let waiter = &self.waiters[position];
                slots.workers.push(waiter.worker);
                slots.lease_seconds.push(waiter.lease_seconds);
                slots.tokens.push(Uuid::new_v4());
                owners.push(position);
            }
            if owners.len() == before {
                break;
            }
            round += 1;
        }
        (slots, owners)
    }
}

/// Every group, and the lanes heard of.
#[derive(Default)]
pub(super) struct Groups {
    groups: HashMap<Arc<Interest>, Group>,
    /// The groups that may want a lane of this tenant; those of every tenant under none.
    by_tenant: HashMap<Option<Uuid>, Vec<Arc<Interest>>>,
    /// Lanes never change, so what was once learned of one holds. Forgotten when there are too many.
    lanes: HashMap<i32, PullLane>,
    /// Lanes that were rung and that nobody here asks for.
    foreign: Foreign,
}

/// The most jobs of one claim.
pub(super) const MOST: usize = 200;
const MOST_LANES: usize = 200_000;
/// Groups of one tenant that are remembered though nobody waits in them.
const MOST_UNUSED: usize = 50;
/// Definitions that one look at the lanes names.
const MOST_KEYS: usize = 2_000;
/// A group that nobody stood in for this long is forgotten, with its memory of whose turn it is.
const UNUSED_FOR: Duration = Duration::from_secs(120);

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes a claim in. True if the lanes must be looked up for it: its group is new, and nothing is known yet of what
    /// it wants, or it does not wait, and must find what a bell on its way to us would tell of.
    pub(super) fn add(&mut self, waiter: Waiter, now: Instant) -> bool {
        let is_hasty = !waiter.waits;
        if let Some(group) = self.groups.get_mut(&waiter.interest) {
            group.waiters.push_back(waiter);
            group.last_used = now;
            return is_hasty;
        }
        let interest = Arc::new(waiter.interest.clone());
        self.forget_unused(interest.tenant);
        self.by_tenant.entry(interest.tenant).or_default().push(interest.clone());
        // A lane that was nobody's may be this group's.
        self.foreign.clear();
        let group = Group {
            waiters: VecDeque::from([waiter]),
            lines: Lines::new(),
            backlog: Backlog::default(),
            most: MOST,
            last_used: now,
        };
        self.groups.insert(interest, group);
        true
    }

    /// Keeps a tenant that asks forever new names from filling the memory with groups in which nobody waits.
    fn forget_unused(&mut self, tenant: Option<Uuid>) {
        let Some(interests) = self.by_tenant.get_mut(&tenant) else { return };
        let unused = |groups: &HashMap<Arc<Interest>, Group>, interest: &Arc<Interest>| {
            groups.get(interest).is_none_or(|group| group.waiters.is_empty())
        };
        let mut excess = interests
            .iter()
            .filter(|interest| unused(&self.groups, interest))
            .count()
            .saturating_sub(MOST_UNUSED);
        // The oldest first: they are in the order in which they came.
        interests.retain(|interest| {
            let goes = excess > 0 && unused(&self.groups, interest);
            if goes {
                excess -= 1;
                self.groups.remove(interest);
            }
            !goes
        });
    }

    /// The definitions that anybody asks for; none means all of them, also where so many are asked for that naming them costs more.
    pub(super) fn keys(&self) -> Option<Vec<String>> {
        let mut keys = Vec::new();
        for interest in self.groups.keys() {
            if interest.keys.is_empty() {
                return None;
            }
            keys.extend_from_slice(&interest.keys);
            if keys.len() > MOST_KEYS {
                return None;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Some(keys)
    }

    /// Takes over which lanes have work.
    pub(super) fn replace(&mut self, active: Vec<PullLane>, now: Instant) {
        let mut found: HashMap<Arc<Interest>, Vec<ActiveLane>> = HashMap::new();
        if self.lanes.len() > MOST_LANES {
            self.lanes.clear();
        }
        for lane in active {
            for interest in self.wanting(&lane) {
                found.entry(interest).or_default().push(ActiveLane {
                    id: lane.id,
                    tenant: lane.tenant,
                    priority: lane.priority,
                    definition_key: lane.definition_key.to_string(),
                    weight: lane.weight,
                    rooms: lane.rooms.clone(),
                });
            }
            self.lanes.insert(lane.id, lane);
        }
        for (interest, group) in &mut self.groups {
            group.lines.replace(found.remove(interest).unwrap_or_default(), now);
        }
    }

    /// There is work in this lane. False if the lanes must be looked up to know whose.
    pub(super) fn wake(&mut self, lane: i32, now: Instant) -> bool {
        let Some(known) = self.lanes.get(&lane) else {
            return self.foreign.is_believed(lane, now);
        };
        let mut is_known = true;
        for interest in self.wanting(known) {
            if let Some(group) = self.groups.get_mut(&interest) {
                is_known &= group.lines.wake(lane, now);
            }
        }
        is_known
    }

    /// There is room again under this running limit. False if the lanes must be looked up to know which are under it.
    pub(super) fn wake_room(&mut self, room: i32, now: Instant) -> bool {
        let mut is_known = true;
        for group in self.groups.values_mut() {
            is_known &= group.lines.wake_room(room, now);
        }
        is_known
    }

    fn wanting(&self, lane: &PullLane) -> Vec<Arc<Interest>> {
        let candidates = [Some(lane.tenant), None];
        let all = candidates.iter().filter_map(|tenant| self.by_tenant.get(tenant)).flatten();
        all.filter(|interest| interest.wants(lane)).cloned().collect()
    }

    pub(super) fn queue_of(&self, lane: i32) -> Option<&str> {
        self.lanes.get(&lane).map(|lane| &*lane.queue)
    }

    /// Those in which somebody waits.
    pub(super) fn waiting(&self) -> Vec<Arc<Interest>> {
        let waiting = self.groups.iter().filter(|(_, group)| !group.waiters.is_empty());
        waiting.map(|(interest, _)| interest.clone()).collect()
    }

    pub(super) fn get_mut(&mut self, interest: &Interest) -> Option<&mut Group> {
        self.groups.get_mut(interest)
    }

    /// Answers the claims of a group that do not wait: there was nothing for them.
    pub(super) fn dismiss_hasty(&mut self, interest: &Interest) {
        let Some(group) = self.groups.get_mut(interest) else { return };
        if group.waiters.iter().all(|waiter| waiter.waits) {
            return;
        }
        let (stay, go): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut group.waiters).into_iter().partition(|waiter| waiter.waits);
        group.waiters = stay;
        for waiter in Vec::from(go) {
            // Nobody there to hear it is no loss.
            let _ = waiter.answer(Vec::new());
        }
    }

    /// Forgets claims whose caller is gone and groups that nobody uses. Answers the workers that wait.
    pub(super) fn tidy(&mut self, now: Instant) -> Vec<i32> {
        let mut present = Vec::new();
        self.groups.retain(|_, group| {
            group.waiters.retain(|waiter| !waiter.reply.is_closed());
            present.extend(group.waiters.iter().map(|waiter| waiter.worker));
            if !group.waiters.is_empty() {
                group.last_used = now;
            }
            now.duration_since(group.last_used) < UNUSED_FOR
        });
        for interests in self.by_tenant.values_mut() {
            interests.retain(|interest| self.groups.contains_key(interest));
        }
        self.by_tenant.retain(|_, interests| !interests.is_empty());
        present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasty(tenant: Uuid, key: String) -> Waiter {
        let claim = Claim {
            worker_id: None,
            definition_keys: vec![key],
            queues: Vec::new(),
            limit: 1,
            wait: Duration::ZERO,
            lease: Duration::from_secs(60),
        };
        Waiter::new(claim, Some(tenant), 1, oneshot::channel().0)
    }

    #[test]
    fn ever_new_names_are_not_remembered_forever() {
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut groups = Groups::default();
        let now = Instant::now();
        groups.add(hasty(quiet, "ordinary".to_owned()), now);
        for n in 0..10_000 {
            let waiter = hasty(loud, format!("made up {n}"));
            let interest = waiter.interest.clone();
            groups.add(waiter, now);
            groups.dismiss_hasty(&interest);
        }
        assert!(groups.groups.len() <= MOST_UNUSED + 2, "{}", groups.groups.len());
        assert_eq!(groups.by_tenant[&Some(loud)].len(), groups.groups.len() - 1);
        assert!(groups.keys().is_some_and(|keys| keys.contains(&"ordinary".to_owned())));
    }

    #[test]
    fn a_look_names_no_more_definitions_than_is_worth_it() {
        let mut groups = Groups::default();
        for n in 0..=MOST_KEYS {
            groups.add(hasty(Uuid::from_u128(n as u128), format!("{n}")), Instant::now());
        }
        assert_eq!(groups.keys(), None);
    }
}
