//! The waiting claims. Claims with the same request share a group, in the order of arrival, so that a new job affects a
//! few groups and not ten thousand requests.
//!
//! What a tenant requests costs the others nothing: an arrival touches its own group and no other, lanes are searched
//! for the groups that need it, and only groups that have both a claim and a lane with work are visited, one of each
//! tenant at a time.

mod group;
mod waiter;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::interest::{Interest, InterestId};
use crate::lane::cursors::Foreign;
use crate::store::pull::PullLane;
use crate::store::worker::ActiveLane;
use group::Group;
pub(super) use waiter::{Arrivals, Waiter};

/// Every group, and the known lanes.
#[derive(Default)]
pub(super) struct Groups {
    groups: HashMap<InterestId, Group>,
    /// The groups that may want a lane of this tenant; those of every tenant under `None`.
    by_tenant: HashMap<Option<Uuid>, TenantGroups>,
    /// A lane never changes its tenant, definition, queue and priority, so an entry stays valid. Cleared when there are
    /// too many.
    lanes: HashMap<i32, PullLane>,
    /// Lanes that were notified and that no group here requests.
    foreign: Foreign,
    /// The groups with a lane that a running limit applies to.
    by_limit: HashMap<i32, HashSet<InterestId>>,
    /// Running limits that were notified and apply to no lane of a group here.
    foreign_limits: Foreign,
    /// The groups whose lanes must be searched: new ones, those with a claim that does not wait, which must find jobs
    /// whose notification has not arrived yet, and those that were notified of a lane that they do not know.
    fresh: HashSet<InterestId>,
    /// The groups with a claim that does not wait.
    hasty: HashSet<InterestId>,
    /// The groups with a claim and a lane with work, by tenant, in the order of their turns.
    ready: HashMap<Option<Uuid>, VecDeque<InterestId>>,
    /// The groups that had their turn and could not be served, although there is work.
    stuck: Vec<InterestId>,
    uses: u64,
    #[cfg(test)]
    visits: usize,
}

#[derive(Default)]
struct TenantGroups {
    all: HashSet<InterestId>,
    /// Those without a waiting claim, the one that was used last at the end.
    unused: BTreeMap<u64, InterestId>,
    /// When a new group of the tenant last made the dispatcher forget which lanes nobody requests.
    forgot_at: Option<Instant>,
}

/// The maximum number of jobs per claim.
pub(super) const MAX: usize = 200;
const MAX_LANES: usize = 200_000;
/// The maximum number of groups of one tenant that are kept without a waiting claim.
const MAX_UNUSED: usize = 50;
/// The maximum number of definitions in one search of the lanes.
const MAX_KEYS: usize = 2_000;
/// A group without a claim for this long is removed, with its record of whose turn it is.
const UNUSED_FOR: Duration = Duration::from_secs(120);
/// How often a tenant's new groups make the dispatcher forget which lanes nobody requests. Within this time its lanes
/// are found by the next search.
const FORGET_EVERY: Duration = Duration::from_secs(1);

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds a claim, unless its caller has disconnected.
    pub(super) fn add(&mut self, waiter: Waiter, now: Instant) {
        if waiter.is_gone() {
            return;
        }
        let (id, is_hasty) = (waiter.permit.id, !waiter.waits);
        if self.group(id).is_none() {
            self.create(id, waiter.permit.interest.clone(), now);
            self.fresh.insert(id);
        }
        if is_hasty {
            self.fresh.insert(id);
            self.hasty.insert(id);
        }
        if let Some(group) = self.group(id) {
            group.waiters.push_back(waiter);
            group.last_used = now;
        }
        self.note_use(id);
        self.mark(id);
    }

    fn create(&mut self, id: InterestId, interest: Arc<Interest>, now: Instant) {
        let of_tenant = self.by_tenant.entry(interest.tenant).or_default();
        of_tenant.all.insert(id);
        // A lane that no group requested may belong to this group.
        let is_trusted = interest.tenant.is_none();
        if is_trusted || of_tenant.forgot_at.is_none_or(|at| now.duration_since(at) >= FORGET_EVERY) {
            of_tenant.forgot_at = Some(now);
            self.foreign.clear();
        }
        self.groups.insert(id, Group::new(interest, now));
    }

    /// Gives a group that is used no longer, or again, its place among the unused ones. The one of the tenant that was
    /// unused for the longest time is removed if there are too many: otherwise a tenant that always requests new names
    /// would fill the memory.
    pub(super) fn note_use(&mut self, id: InterestId) {
        let use_number = self.uses + 1;
        let Some(group) = self.group(id) else { return };
        let is_unused = group.waiters.is_empty();
        if is_unused == group.unused.is_some() {
            return;
        }
        let tenant = group.interest.tenant;
        let before = std::mem::replace(&mut group.unused, is_unused.then_some(use_number));
        let of_tenant = self.by_tenant.entry(tenant).or_default();
        if let Some(before) = before {
            of_tenant.unused.remove(&before);
        } else {
            of_tenant.unused.insert(use_number, id);
        }
        self.uses = use_number;
        if of_tenant.unused.len() > MAX_UNUSED
            && let Some((_, oldest)) = of_tenant.unused.first_key_value()
        {
            let oldest = *oldest;
            self.remove(oldest);
        }
    }

    fn remove(&mut self, id: InterestId) {
        let Some(group) = self.groups.remove(&id) else { return };
        self.forget_limits(id, &group.limits);
        self.fresh.remove(&id);
        self.hasty.remove(&id);
        let Some(of_tenant) = self.by_tenant.get_mut(&group.interest.tenant) else { return };
        of_tenant.all.remove(&id);
        if let Some(place) = group.unused {
            of_tenant.unused.remove(&place);
        }
        if of_tenant.all.is_empty() {
            self.by_tenant.remove(&group.interest.tenant);
        }
    }

    /// Lets a group have a turn if it has a claim and a lane with work.
    pub(super) fn mark(&mut self, id: InterestId) {
        let Some(group) = self.group(id) else { return };
        if !group.is_ready && !group.waiters.is_empty() && group.cursors.has_work() {
            group.is_ready = true;
            let tenant = group.interest.tenant;
            self.ready.entry(tenant).or_default().push_back(id);
        }
    }

    /// Records that a group could not be served in its turn.
    pub(super) fn mark_stuck(&mut self, id: InterestId) {
        self.stuck.push(id);
    }

    /// Lets the groups that could not be served have another turn.
    pub(super) fn retry_stuck(&mut self) {
        for id in std::mem::take(&mut self.stuck) {
            self.mark(id);
        }
    }

    /// Returns the groups that are served next: one of each tenant, however many it has.
    pub(super) fn turn(&mut self) -> Vec<InterestId> {
        let mut turn = Vec::with_capacity(self.ready.len());
        for of_tenant in self.ready.values_mut() {
            // A group that was removed meanwhile has no turn.
            while let Some(id) = of_tenant.pop_front() {
                if let Some(group) = self.groups.get_mut(&id) {
                    group.is_ready = false;
                    turn.push(id);
                    break;
                }
            }
        }
        self.ready.retain(|_, of_tenant| !of_tenant.is_empty());
        turn
    }

    /// Whether a group waits for its turn.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the lanes of a group must be searched.
    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Returns the definitions of all requests; `None` means all definitions, also if there are so many that listing
    /// them costs more.
    pub(super) fn keys(&self) -> Option<Vec<String>> {
        keys(self.groups.values())
    }

    /// The same for the groups whose lanes must be searched.
    pub(super) fn fresh_keys(&self) -> Option<Vec<String>> {
        keys(self.fresh.iter().filter_map(|id| self.groups.get(id)))
    }

    /// Replaces the lanes that have work, and removes claims whose caller has disconnected.
    pub(super) fn replace(&mut self, active: Vec<PullLane>, now: Instant) {
        let mut found: HashMap<InterestId, Vec<ActiveLane>> = HashMap::new();
        for lane in &active {
            for id in self.wanting(lane) {
                found.entry(id).or_default().push(lane.as_active());
            }
        }
        self.know(active);
        self.fresh.clear();
        self.stuck.clear();
        for id in self.groups.keys().copied().collect::<Vec<_>>() {
            if let Some(group) = self.group(id) {
                group.waiters.retain(|waiter| !waiter.is_gone());
            }
            self.set_lanes(id, found.remove(&id).unwrap_or_default(), now);
            self.note_use(id);
            self.mark(id);
        }
    }

    /// The same for the groups whose lanes had to be searched, and for no other.
    pub(super) fn replace_fresh(&mut self, active: Vec<PullLane>, now: Instant) {
        for id in std::mem::take(&mut self.fresh) {
            if let Some(group) = self.group(id) {
                let wanted = active.iter().filter(|lane| group.interest.wants(lane));
                let wanted = wanted.map(PullLane::as_active).collect();
                self.set_lanes(id, wanted, now);
            }
            self.mark(id);
        }
        self.know(active);
    }

    /// Replaces the lanes of a group, and the running limits that apply to them.
    fn set_lanes(&mut self, id: InterestId, lanes: Vec<ActiveLane>, now: Instant) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let limits: HashSet<i32> = lanes.iter().flat_map(|lane| lane.limits.iter().copied()).collect();
        group.cursors.replace(lanes, now);
        if group.limits != limits {
            let before = std::mem::replace(&mut group.limits, limits.clone());
            self.forget_limits(id, &before);
            for limit in limits {
                self.by_limit.entry(limit).or_default().insert(id);
            }
        }
    }

    fn forget_limits(&mut self, id: InterestId, limits: &HashSet<i32>) {
        for limit in limits {
            if let Some(of_limit) = self.by_limit.get_mut(limit) {
                of_limit.remove(&id);
                if of_limit.is_empty() {
                    self.by_limit.remove(limit);
                }
            }
        }
    }

    fn know(&mut self, lanes: Vec<PullLane>) {
        if self.lanes.len() > MAX_LANES {
            self.lanes.clear();
        }
        self.lanes.extend(lanes.into_iter().map(|lane| (lane.id, lane)));
    }

    /// Marks a lane as having work. Returns false if the lanes must be searched to find its groups.
    pub(super) fn wake(&mut self, lane: i32, now: Instant) -> bool {
        let Some(known) = self.lanes.get(&lane) else {
            return self.foreign.is_known_foreign(lane, now);
        };
        for id in self.wanting(known) {
            if self.group(id).is_some_and(|group| !group.cursors.wake(lane, now)) {
                self.fresh.insert(id);
            }
            self.mark(id);
        }
        true
    }

    /// Marks the lanes of a running limit that was freed. Returns false if the lanes must be searched: the limit may
    /// be newer than the last search.
    pub(super) fn wake_limit(&mut self, limit: i32, now: Instant) -> bool {
        let Some(of_limit) = self.by_limit.get(&limit) else {
            return self.foreign_limits.is_known_foreign(limit, now);
        };
        for id in of_limit.iter().copied().collect::<Vec<_>>() {
            if self.group(id).is_some_and(|group| !group.cursors.wake_limit(limit, now)) {
                self.fresh.insert(id);
            }
            self.mark(id);
        }
        true
    }

    fn wanting(&self, lane: &PullLane) -> Vec<InterestId> {
        let candidates = [Some(lane.tenant), None];
        let all = candidates.iter().filter_map(|tenant| self.by_tenant.get(tenant)).flat_map(|of| &of.all);
        let wants = |id: &&InterestId| self.groups.get(*id).is_some_and(|group| group.interest.wants(lane));
        all.filter(wants).copied().collect()
    }

    pub(super) fn queue_of(&self, lane: i32) -> Option<&str> {
        self.lanes.get(&lane).map(|lane| &*lane.queue)
    }

    pub(super) fn group(&mut self, id: InterestId) -> Option<&mut Group> {
        #[cfg(test)]
        {
            self.visits += 1;
        }
        self.groups.get_mut(&id)
    }

    /// Ends the claims that do not wait and whose group has no further turn: there were no jobs for them.
    pub(super) fn end_claims_without_wait(&mut self) {
        for id in std::mem::take(&mut self.hasty) {
            let Some(group) = self.group(id) else { continue };
            if group.is_ready {
                self.hasty.insert(id);
                continue;
            }
            let (stay, go): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut group.waiters).into_iter().partition(|waiter| waiter.waits);
            group.waiters = stay;
            for waiter in Vec::from(go) {
                // It does not matter if the caller no longer waits.
                let _ = waiter.answer(Vec::new());
            }
            self.note_use(id);
        }
    }

    /// Removes unused groups. Returns the workers that wait.
    pub(super) fn tidy(&mut self, now: Instant) -> Vec<i32> {
        let mut present = Vec::new();
        for id in self.groups.keys().copied().collect::<Vec<_>>() {
            let Some(group) = self.group(id) else { continue };
            group.waiters.retain(|waiter| !waiter.is_gone());
            present.extend(group.waiters.iter().map(|waiter| waiter.worker));
            if !group.waiters.is_empty() {
                group.last_used = now;
            }
            if now.duration_since(group.last_used) >= UNUSED_FOR {
                self.remove(id);
            } else {
                self.note_use(id);
            }
        }
        present
    }
}

fn keys<'a>(groups: impl Iterator<Item = &'a Group>) -> Option<Vec<String>> {
    let mut keys = Vec::new();
    for group in groups {
        if group.interest.keys.is_empty() {
            return None;
        }
        keys.extend_from_slice(&group.interest.keys);
        if keys.len() > MAX_KEYS {
            return None;
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Some(keys)
}

#[cfg(test)]
mod tests;
