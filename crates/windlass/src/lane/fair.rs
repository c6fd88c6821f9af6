//! Assigns a worker's free slots to lanes, fairly between tenants and by priority within one.
//!
//! Between tenants this is weighted deficit round robin, implemented with virtual time. Each tenant has a counter of
//! its turns divided by its weight, and the tenant with the lowest counter goes next; among equals, the one that has
//! waited longest. So the shares of two tenants that both have work differ by no more than a portion at any time,
//! regardless of how many lanes each has, and a newcomer starts level with the least served: idle time earns no credit,
//! and an old backlog causes no debt.
//!
//! A deal is made without knowing how many jobs each lane has. It is dealt in portions, large enough that the single
//! claim statement touches few lanes, and [`Fair::settle`] refunds the turns that a lane could not use. A lane that
//! returned fewer jobs counts as empty and rests until it is woken, so that the next deal is made among lanes that do
//! have work: one huge backlog next to many small ones soon gets whole batches.
//!
//! Nothing here is shared or stored. Each worker is fair by itself, and the sum of fair workers is fair.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use uuid::Uuid;

/// The maximum number of lanes of a deal, because each costs the claim an index descent.
pub const MAX_LANES: usize = 64;

/// A lane gains one point of priority for each of these intervals that it waits, so that none starves.
pub const AGEING: Duration = Duration::from_secs(1);

/// One ordered stream of jobs: a (queue, definition, tenant, priority), interned as a number. A lower number runs
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// The number of the lane.
    pub id: i32,
    /// Its tenant.
    pub tenant: Uuid,
    /// Its priority.
    pub priority: i16,
}

/// Chooses the lanes of the next claim, in turn.
#[derive(Debug, Default)]
pub struct Fair {
    lanes: HashMap<i32, KnownLane>,
    tenants: HashMap<Uuid, TenantShare>,
    /// The tenants that have an active lane, least served first.
    ranking: BTreeSet<Rank>,
    /// The counter of a tenant that becomes active when none is: the highest so far.
    horizon: u128,
    /// Increases with each turn, and shows who has waited longest.
    turn: u64,
    /// The last deal skipped a tenant that has reached its limit of slots.
    holds_back: bool,
}

impl Fair {
    /// Creates an instance without lanes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a lane, at rest, or changes it; `weight` is the share of its whole tenant, and zero counts as one.
    pub fn set_lane(&mut self, lane: Lane, weight: u32) {
        let was_active = self.is_active(lane.id);
        if self.lanes.get(&lane.id).is_some_and(|known| known.lane != lane) {
            self.remove_lane(lane.id);
        }
        self.lanes.entry(lane.id).or_insert(KnownLane { lane, woken: false, is_active: false });
        let tenant = self.tenants.entry(lane.tenant).or_default();
        tenant.lanes.insert(lane.id);
        tenant.weight = weight.max(1);
        if was_active {
            self.activate(lane.id);
        }
    }

    /// Removes a lane.
    pub fn remove_lane(&mut self, id: i32) {
        self.deactivate(id);
        let Some(KnownLane { lane, .. }) = self.lanes.remove(&id) else { return };
        let Some(tenant) = self.tenants.get_mut(&lane.tenant) else { return };
        tenant.lanes.remove(&id);
        if tenant.lanes.is_empty() {
            self.tenants.remove(&lane.tenant);
        }
    }

    /// Marks a lane as having work: a job arrived, a limit was lifted, or it is time to check again. An unknown lane is
    /// ignored.
    pub fn activate(&mut self, id: i32) {
        let Some(known) = self.lanes.get_mut(&id) else { return };
        known.woken = true;
        if std::mem::replace(&mut known.is_active, true) {
            return;
        }
        let lane = known.lane;
        let level = self.ranking.first().map_or(self.horizon, |rank| rank.served);
        let Some(tenant) = self.tenants.get_mut(&lane.tenant) else { return };
        if tenant.active.is_empty() {
            // Last among equals: otherwise a stream of newcomers could keep the existing tenants from their turn.
            self.turn += 1;
            (tenant.served, tenant.turn) = (tenant.served.max(level), self.turn);
            self.ranking.insert(tenant.rank(lane.tenant));
        }
        tenant.active.push(Active {
            id,
            priority: lane.priority,
            waits_since: None,
            turn: 0,
            before: (None, 0),
        });
    }

    /// Puts a lane to rest until it is woken, also by a claim in progress that returns all requested jobs. To end a
    /// lane, remove it.
    pub fn deactivate(&mut self, id: i32) {
        let Some(known) = self.lanes.get_mut(&id) else { return };
        known.woken = false;
        if !std::mem::take(&mut known.is_active) {
            return;
        }
        let lane = known.lane;
        let Some(tenant) = self.tenants.get_mut(&lane.tenant) else { return };
        let Some(place) = tenant.active.iter().position(|active| active.id == id) else { return };
        tenant.active.swap_remove(place);
        if tenant.active.is_empty() {
            self.ranking.remove(&tenant.rank(lane.tenant));
            self.horizon = self.horizon.max(tenant.served);
        }
    }

    /// Returns whether the lane has work.
    pub fn is_active(&self, id: i32) -> bool {
        self.lanes.get(&id).is_some_and(|known| known.is_active)
    }

    /// Returns whether any lane has work.
    pub fn has_active_lanes(&self) -> bool {
        !self.ranking.is_empty()
    }

    /// Deals all of `slots`, if there is an active lane: at most [`MAX_LANES`] lanes, each once, with its number of
    /// turns. `now` is any monotonic clock; only ageing reads it.
    pub fn deal(&mut self, slots: usize, now: Duration) -> Vec<(i32, usize)> {
        self.deal_within(slots, now, |_, wanted| wanted)
    }

    /// The same, but `grant` returns how many of the wanted slots a tenant may have. A tenant that may have none is
    /// skipped and keeps its position, so its slots may be left over; so may slots after [`MAX_LANES`] smaller portions.
    pub fn deal_within(
        &mut self,
        slots: usize,
        now: Duration,
        mut grant: impl FnMut(Uuid, usize) -> usize,
    ) -> Vec<(i32, usize)> {
        let mut dealt: Vec<(i32, usize)> = Vec::new();
        let mut passed_over = Vec::new();
        let portion = portion(slots);
        let mut left = slots;
        let deal = self.turn;
        while left > 0 && dealt.len() < MAX_LANES {
            let Some(rank) = self.ranking.pop_first() else { break };
            let Some(tenant) = self.tenants.get_mut(&rank.tenant) else { continue };
            let count = grant(rank.tenant, portion.min(left));
            if count == 0 {
                passed_over.push(rank);
                continue;
            }
            self.turn += 1;
            tenant.served += tenant.price(count);
            tenant.turn = self.turn;
            self.ranking.insert(tenant.rank(rank.tenant));
            let Some(lane) = tenant.next_lane(now, deal, self.turn) else { continue };
            left -= count;
            match dealt.iter_mut().find(|(id, _)| *id == lane) {
                Some((_, turns)) => *turns += count,
                None => dealt.push((lane, count)),
            }
        }
        self.holds_back = !passed_over.is_empty();
        self.ranking.extend(passed_over);
        for (id, _) in &dealt {
            // The claim that follows sees everything that earlier notifications announced.
            self.lanes.entry(*id).and_modify(|known| known.woken = false);
        }
        dealt
    }

    /// Returns the lanes to read if those of the last deal have fewer jobs than slots: one of each tenant in turn, least served first, at
    /// most [`MAX_LANES`], those that are not in the deal first. They cost their tenants nothing until [`Fair::settle_spare`].
    pub fn spare(&mut self, dealt: &HashSet<i32>, now: Duration) -> Vec<i32> {
        let mut of_tenants: Vec<Vec<i32>> = Vec::new();
        for rank in self.ranking.iter().take(MAX_LANES) {
            let Some(tenant) = self.tenants.get(&rank.tenant) else { continue };
            let mut lanes: Vec<&Active> = tenant.active.iter().collect();
            lanes.sort_unstable_by_key(|lane| {
                (dealt.contains(&lane.id), lane.urgency(now), lane.turn, lane.id)
            });
            of_tenants.push(lanes.iter().take(MAX_LANES).map(|lane| lane.id).collect());
        }
        let longest = of_tenants.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|round| of_tenants.iter().filter_map(move |of| of.get(round)));
        let (again, mut spare): (Vec<i32>, Vec<i32>) =
            in_turn.copied().partition(|lane| dealt.contains(lane));
        spare.extend(again);
        spare.truncate(MAX_LANES);
        for id in spare.iter().filter(|id| !dealt.contains(id)) {
            self.lanes.entry(*id).and_modify(|known| known.woken = false);
        }
        spare
    }

    /// Records how many jobs the claim got from a spare lane that it read, when it requested `asked`.
    pub fn settle_spare(&mut self, id: i32, asked: usize, got: usize) {
        if let Some(known) = self.lanes.get(&id) {
            self.charge(known.lane.tenant, asked);
        }
        self.settle(id, asked, got);
    }

    fn charge(&mut self, tenant_id: Uuid, turns: usize) {
        let Some(tenant) = self.tenants.get_mut(&tenant_id) else { return };
        let was_ranked = self.ranking.remove(&tenant.rank(tenant_id));
        tenant.served += tenant.price(turns);
        if was_ranked {
            self.ranking.insert(tenant.rank(tenant_id));
        }
    }

    /// Returns whether a tenant with work waits for its own slots to become free.
    pub fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Records how many jobs the claim got from a lane when it requested `asked`. Unused turns are refunded to the
    /// tenant, and a lane that returned fewer jobs rests, unless it was woken since it was dealt.
    pub fn settle(&mut self, id: i32, asked: usize, got: usize) {
        let Some(KnownLane { lane, woken, .. }) = self.lanes.get(&id).copied() else { return };
        if got >= asked {
            // Woken, and not only left active: an older claim may have returned fewer jobs and put it to rest.
            if asked > 0 {
                self.activate(id);
            }
            return;
        }
        self.refund(lane.tenant, asked - got);
        if !woken {
            self.deactivate(id);
        }
    }

    /// Refunds turns that were dealt to a lane and are not requested from it. The lane stays active.
    pub fn give_back(&mut self, id: i32, turns: usize) {
        if let Some(known) = self.lanes.get(&id) {
            self.refund(known.lane.tenant, turns);
        }
    }

    /// Refunds all turns of the last deal of a lane. It has not been served, so its ageing continues.
    pub fn skip(&mut self, id: i32, turns: usize) {
        let Some(KnownLane { lane, .. }) = self.lanes.get(&id).copied() else { return };
        self.refund(lane.tenant, turns);
        if let Some(tenant) = self.tenants.get_mut(&lane.tenant)
            && let Some(active) = tenant.active.iter_mut().find(|active| active.id == id)
        {
            (active.waits_since, active.turn) = active.before;
        }
    }

    fn refund(&mut self, tenant_id: Uuid, turns: usize) {
        let Some(tenant) = self.tenants.get_mut(&tenant_id) else { return };
        let was_ranked = self.ranking.remove(&tenant.rank(tenant_id));
        tenant.served = tenant.served.saturating_sub(tenant.price(turns));
        if was_ranked {
            self.ranking.insert(tenant.rank(tenant_id));
        }
    }
}

/// The price of one turn at weight 1. Divisible by every small weight, so that shares are exact.
const TURN: u128 = 720_720 << 20;

/// Below this a claim descends an index for too few rows.
const MIN_PORTION: usize = 4;

/// Returns how many turns are dealt at a time: few enough portions to limit the lanes, and no more than half of the
/// slots, so that two tenants never differ by more than one deal.
fn portion(slots: usize) -> usize {
    slots.div_ceil(MAX_LANES).max(MIN_PORTION.min(slots / 2)).max(1)
}

#[derive(Debug, Clone, Copy)]
struct KnownLane {
    lane: Lane,
    /// Whether it was woken since it was last dealt.
    woken: bool,
    /// Whether it is among its tenant's active lanes. Stored here too, or a search would be quadratic in a tenant's
    /// lanes.
    is_active: bool,
}

#[derive(Debug, Default)]
struct TenantShare {
    weight: u32,
    /// Turns so far, divided by the weight.
    served: u128,
    turn: u64,
    lanes: BTreeSet<i32>,
    active: Vec<Active>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    served: u128,
    turn: u64,
    tenant: Uuid,
}

#[derive(Debug)]
struct Active {
    id: i32,
    priority: i16,
    /// Since the first deal that saw it after it was woken or served.
    waits_since: Option<Duration>,
    turn: u64,
    /// Both values before the last deal that served it.
    before: (Option<Duration>, u64),
}

impl TenantShare {
    fn rank(&self, tenant: Uuid) -> Rank {
        Rank { served: self.served, turn: self.turn, tenant }
    }

    fn price(&self, turns: usize) -> u128 {
        turns as u128 * TURN / u128::from(self.weight.max(1))
    }

    /// Returns the most urgent lane, which then waits again. Chosen for each portion, so that lanes of one priority
    /// share a deal. `deal` is the turn before this deal.
    fn next_lane(&mut self, now: Duration, deal: u64, turn: u64) -> Option<i32> {
        for lane in &mut self.active {
            lane.waits_since.get_or_insert(now);
        }
        let best = self.active.iter_mut().min_by_key(|lane| (lane.urgency(now), lane.turn, lane.id))?;
        if best.turn <= deal {
            best.before = (best.waits_since, best.turn);
        }
        (best.waits_since, best.turn) = (Some(now), turn);
        Some(best.id)
    }
}

impl Active {
    /// Lower is more urgent; in nanoseconds, so that it is exact.
    fn urgency(&self, now: Duration) -> i128 {
        let waited = self.waits_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        i128::from(self.priority) * AGEING.as_nanos().cast_signed() - waited.as_nanos().cast_signed()
    }
}

#[cfg(test)]
mod tests;
