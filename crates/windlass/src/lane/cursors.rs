//! The feed's data about its lanes: whose turn it is, the position in each, and when to read it from the start.
//!
//! A cursor lets a claim skip the dead index entries of finished jobs, which keeps the queue fast while an old
//! transaction blocks the vacuum. It is only a hint: a row that committed late is behind it, so every lane is read from
//! its start now and then, the longer that takes the less often.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::fair::{Fair, Lane};
use crate::store::worker::{ActiveLane, Wanted};

/// A lane is read from its start at most this often, and at most for a twentieth of the time.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
const SWEEP_SHARE: u32 = 20;
/// How long after its last job a lane is claimed from again without a notification.
const WARM_FOR: Duration = Duration::from_millis(50);
const FOREIGN_FOR: Duration = Duration::from_secs(5);
/// How long after its last job a lane is remembered. A busy worker checks these lanes more often than it searches for
/// others.
const RECENT_FOR: Duration = Duration::from_secs(30);
const MAX_RECENT: usize = 256;
/// How many jobs a spare lane is asked for.
const SPARE: usize = 4;
/// The maximum size of the payloads of one claim, estimated from the previous jobs of its lanes. A claim of large jobs
/// delays those of other tenants.
const CLAIM_BYTES: usize = 1 << 20;

pub(crate) struct LaneCursors {
    fair: Fair,
    lanes: HashMap<i32, LaneCursor>,
    keys: HashMap<i32, Arc<str>>,
    foreign: Foreign,
    foreign_limits: Foreign,
    started: Instant,
    sweep_cost: Duration,
}

/// Numbers of notifications that did not concern this worker, and until when to ignore them.
#[derive(Default)]
pub(crate) struct Foreign(HashMap<i32, Instant>);

impl Foreign {
    /// Removes all of them: they may concern this worker now.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether this number is known not to concern this worker. If not, it counts as such from now on: the caller looks
    /// it up.
    pub(crate) fn is_known_foreign(&mut self, number: i32, now: Instant) -> bool {
        if self.0.len() > 10_000 {
            self.0.clear();
        }
        let until = self.0.entry(number).or_insert(now);
        let is_known_foreign = now < *until;
        if !is_known_foreign {
            *until = now + FOREIGN_FOR;
        }
        is_known_foreign
    }
}

struct LaneCursor {
    tenant: Uuid,
    /// The running limits that apply to it.
    limits: Vec<i32>,
    after_seq: i64,
    sweep_at: Instant,
    /// When a job was last claimed from it.
    gave_at: Option<Instant>,
    /// The mean payload size of the jobs of its last claim.
    job_bytes: usize,
    /// Empty or paused at the last check. It is not claimed from until a check finds work in it.
    is_resting: bool,
}

impl LaneCursor {
    fn had_jobs_within(&self, time: Duration, now: Instant) -> bool {
        self.gave_at.is_some_and(|at| now < at + time)
    }
}

/// One claim to make, and which of its lanes it reads from the start.
pub(crate) struct Turn {
    pub(crate) wanted: Wanted,
    is_sweep: Vec<bool>,
    /// The position of the first spare lane, which is read only if the ones before leave slots.
    spare_from: usize,
    slots: usize,
}

impl LaneCursors {
    pub(crate) fn new() -> Self {
        let started = Instant::now();
        Self {
            fair: Fair::new(),
            lanes: HashMap::new(),
            keys: HashMap::new(),
            foreign: Foreign::default(),
            foreign_limits: Foreign::default(),
            started,
            sweep_cost: Duration::ZERO,
        }
    }

    /// Returns the definition of each known lane.
    pub(crate) fn keys(&self) -> &HashMap<i32, Arc<str>> {
        &self.keys
    }

    /// Replaces the lanes that have work, according to the database. Other lanes are empty or paused: they rest, and
    /// are removed if no job was claimed from them recently.
    pub(crate) fn replace(&mut self, active: Vec<ActiveLane>, now: Instant) {
        let named: HashSet<i32> = active.iter().map(|found| found.id).collect();
        let unnamed: Vec<i32> = self.lanes.keys().copied().filter(|lane| !named.contains(lane)).collect();
        let kept: HashSet<i32> = self.recent_among(unnamed.iter().copied(), now).into_iter().collect();
        for lane in unnamed {
            if kept.contains(&lane)
                && let Some(cursor) = self.lanes.get_mut(&lane)
            {
                cursor.is_resting = true;
                self.fair.deactivate(lane);
                continue;
            }
            self.fair.remove_lane(lane);
            self.lanes.remove(&lane);
            self.keys.remove(&lane);
        }
        for found in active {
            let id = found.id;
            self.fair.set_lane(Lane { id, tenant: found.tenant, priority: found.priority }, found.weight);
            self.fair.activate(id);
            self.foreign.0.remove(&id);
            self.keys.entry(id).or_insert_with(|| found.definition_key.into());
            let new = || LaneCursor {
                tenant: found.tenant,
                limits: Vec::new(),
                after_seq: 0,
                sweep_at: now,
                gave_at: None,
                job_bytes: 0,
                is_resting: false,
            };
            let cursor = self.lanes.entry(id).or_insert_with(new);
            (cursor.limits, cursor.is_resting) = (found.limits, false);
        }
    }

    /// Returns the lanes from which a job was claimed recently and that are not known to have work.
    pub(crate) fn recent(&self, now: Instant) -> Vec<i32> {
        self.recent_among(self.lanes.keys().copied().filter(|id| !self.fair.is_active(*id)), now)
    }

    /// Those of these lanes from which a job was claimed recently, at most [`MAX_RECENT`]. The latest lane of each tenant
    /// comes first, then the second of each, so that a tenant with many lanes does not displace those of another.
    fn recent_among(&self, lanes: impl Iterator<Item = i32>, now: Instant) -> Vec<i32> {
        let mut recent: Vec<(i32, &LaneCursor)> = lanes
            .filter_map(|id| Some((id, self.lanes.get(&id)?)))
            .filter(|(_, cursor)| cursor.had_jobs_within(RECENT_FOR, now))
            .collect();
        if recent.len() <= MAX_RECENT {
            return recent.into_iter().map(|(id, _)| id).collect(); // as usual; a busy worker asks every few milliseconds
        }
        recent.sort_by_key(|(_, cursor)| Reverse(cursor.gave_at));
        let mut of_tenant: HashMap<Uuid, usize> = HashMap::new();
        let rank = |(id, cursor): (i32, &LaneCursor)| {
            let rank = of_tenant.entry(cursor.tenant).or_default();
            *rank += 1;
            (*rank, id)
        };
        let mut ranked: Vec<(usize, i32)> = recent.into_iter().map(rank).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, id)| id).take(MAX_RECENT).collect()
    }

    /// Marks lanes in which a check of recent lanes found work.
    pub(crate) fn found(&mut self, lanes: &[i32]) {
        for lane in lanes {
            if let Some(cursor) = self.lanes.get_mut(lane) {
                cursor.is_resting = false;
                self.fair.activate(*lane);
            }
        }
    }

    /// Marks a lane as having work. Returns false if the lane is not known and must be looked up; a lane that is still
    /// unknown after that belongs to other workers, and its notifications are ignored for a while.
    pub(crate) fn wake(&mut self, lane: i32, now: Instant) -> bool {
        match self.lanes.get(&lane) {
            // It may be paused, so it is looked up.
            Some(cursor) if cursor.is_resting => false,
            Some(_) => {
                self.fair.activate(lane);
                true
            }
            None => self.foreign.is_known_foreign(lane, now),
        }
    }

    /// Wakes the lanes of a running limit that was freed. Returns false if there are known lanes and it applies to
    /// none of them: the limit may be newer than the last search. Lanes that are not known have no work, or their own
    /// notification has announced them.
    pub(crate) fn wake_limit(&mut self, limit: i32, now: Instant) -> bool {
        let mut is_known = self.lanes.values().all(|cursor| cursor.is_resting);
        for (id, cursor) in &self.lanes {
            if cursor.limits.contains(&limit) && !cursor.is_resting {
                self.fair.activate(*id);
                is_known = true;
            }
        }
        is_known || self.foreign_limits.is_known_foreign(limit, now)
    }

    /// Wakes the lanes from which jobs were claimed a moment ago. Returns false if there are none.
    pub(crate) fn wake_recent(&mut self, now: Instant) -> bool {
        let mut any = false;
        for (id, cursor) in &self.lanes {
            if cursor.had_jobs_within(WARM_FOR, now) && !cursor.is_resting {
                self.fair.activate(*id);
                any = true;
            }
        }
        any
    }

    /// Returns whether a lane is known to have work.
    pub(crate) fn has_work(&self) -> bool {
        self.fair.has_active_lanes()
    }

    /// Returns the next claim for this many slots, with spare lanes; `None` if no lane is known to have work.
    pub(crate) fn deal(&mut self, slots: usize, now: Instant) -> Option<Turn> {
        let mut turn = self.deal_within(slots, now, |_, wanted| wanted)?;
        let asked: i32 = turn.wanted.counts.iter().sum();
        let cursors = turn.wanted.lanes.iter().filter_map(|lane| self.lanes.get(lane));
        let largest = cursors.map(|cursor| cursor.job_bytes).max().unwrap_or(0);
        if usize::try_from(asked).unwrap_or(0) < slots || largest * slots > CLAIM_BYTES {
            return Some(turn);
        }
        let dealt: HashSet<i32> = turn.wanted.lanes.iter().copied().collect();
        for lane in self.fair.spare(&dealt, now - self.started) {
            let Some(cursor) = self.lanes.get(&lane) else { continue };
            if cursor.job_bytes * slots > CLAIM_BYTES {
                continue;
            }
            let count = if dealt.contains(&lane) { slots } else { SPARE.min(slots) };
            turn.wanted.lanes.push(lane);
            turn.wanted.after_seqs.push(cursor.after_seq);
            turn.wanted.counts.push(i32::try_from(count).unwrap_or(i32::MAX));
            turn.is_sweep.push(false);
        }
        Some(turn)
    }

    /// The same, where `grant` returns how many of the wanted slots a tenant may have.
    pub(crate) fn deal_within(
        &mut self,
        slots: usize,
        now: Instant,
        grant: impl FnMut(Uuid, usize) -> usize,
    ) -> Option<Turn> {
        let dealt = self.fair.deal_within(slots, now - self.started, grant);
        if dealt.is_empty() {
            return None;
        }
        let is_sweep = Vec::with_capacity(dealt.len());
        let mut turn = Turn { wanted: Wanted::default(), is_sweep, spare_from: usize::MAX, slots };
        let mut bytes = CLAIM_BYTES;
        for (lane, dealt) in dealt {
            let Some(cursor) = self.lanes.get_mut(&lane) else { continue };
            let most = bytes / cursor.job_bytes.max(1);
            let count = if turn.wanted.lanes.is_empty() { dealt.min(most.max(1)) } else { dealt.min(most) };
            if count == 0 {
                self.fair.skip(lane, dealt);
                continue;
            }
            self.fair.give_back(lane, dealt - count);
            bytes = bytes.saturating_sub(count * cursor.job_bytes);
            let is_sweep = now >= cursor.sweep_at;
            turn.wanted.lanes.push(lane);
            turn.wanted.after_seqs.push(if is_sweep { 0 } else { cursor.after_seq });
            turn.wanted.counts.push(i32::try_from(count).unwrap_or(i32::MAX));
            turn.is_sweep.push(is_sweep);
        }
        turn.spare_from = turn.wanted.lanes.len();
        Some(turn)
    }

    /// Whether the last deal skipped a tenant with work, because it has reached its limit of slots.
    pub(crate) fn holds_back(&self) -> bool {
        self.fair.holds_back()
    }

    /// Records the result of the claim: for each job its lane, its sequence number and the size of its payload.
    pub(crate) fn settle(
        &mut self,
        turn: &Turn,
        taken: impl Iterator<Item = (i32, i64, usize)>,
        now: Instant,
        took: Duration,
    ) {
        let mut got: HashMap<i32, (usize, i64, usize)> = HashMap::with_capacity(turn.wanted.lanes.len());
        for (lane, seq, bytes) in taken {
            let entry = got.entry(lane).or_insert((0, seq, 0));
            *entry = (entry.0 + 1, entry.1.max(seq), entry.2 + bytes);
        }
        if turn.is_sweep.contains(&true) {
            self.sweep_cost = took;
        }
        // A claim that filled its slots has not read the spare lanes after the last one that gave a job.
        let total: usize = got.values().map(|(count, ..)| count).sum();
        let dealt: HashSet<i32> = turn.wanted.lanes.iter().take(turn.spare_from).copied().collect();
        let gave = |lane: &i32| got.contains_key(lane) && !dealt.contains(lane);
        let last_read = if total < turn.slots {
            turn.wanted.lanes.len()
        } else {
            turn.wanted.lanes.iter().rposition(gave).unwrap_or(0)
        };
        for (position, &lane) in turn.wanted.lanes.iter().enumerate() {
            if position >= turn.spare_from && (dealt.contains(&lane) || position > last_read) {
                continue;
            }
            let Some(cursor) = self.lanes.get_mut(&lane) else { continue };
            let asked = usize::try_from(turn.wanted.counts[position]).unwrap_or(0);
            let (count, last, bytes) = got.get(&lane).copied().unwrap_or_default();
            cursor.after_seq = cursor.after_seq.max(last);
            if turn.is_sweep[position] {
                cursor.sweep_at = now + SWEEP_EVERY.max(self.sweep_cost * SWEEP_SHARE);
            }
            if let Some(mean) = bytes.checked_div(count) {
                cursor.gave_at = Some(now);
                cursor.job_bytes = mean;
            }
            if position < turn.spare_from {
                self.fair.settle(lane, asked, count);
            } else if position == last_read {
                self.fair.settle_spare(lane, count, count); // the slots may have ended before its jobs
            } else {
                self.fair.settle_spare(lane, asked, count);
            }
        }
    }
}

#[cfg(test)]
mod tests;
