//! The feed's data about its lanes: whose turn it is, the position in each, and when to read it from the start.
//!
//! A cursor lets a claim skip the dead index entries of finished jobs, which keeps the queue fast while an old
//! transaction blocks the vacuum. It is only a hint: a row that committed late is behind it, so every lane is read from
//! its start now and then, the longer that takes the less often.

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
/// The maximum size of the payloads of one claim, estimated from the previous jobs of its lanes. A claim of large jobs
/// delays those of other tenants.
const CLAIM_BYTES: usize = 1 << 20;

pub(crate) struct Lines {
    fair: Fair,
    lanes: HashMap<i32, Line>,
    keys: HashMap<i32, Arc<str>>,
    foreign: Foreign,
    foreign_rooms: Foreign,
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
    pub(crate) fn is_believed(&mut self, number: i32, now: Instant) -> bool {
        if self.0.len() > 10_000 {
            self.0.clear();
        }
        let until = self.0.entry(number).or_insert(now);
        let is_believed = now < *until;
        if !is_believed {
            *until = now + FOREIGN_FOR;
        }
        is_believed
    }
}

struct Line {
    /// The running limits that apply to it.
    rooms: Vec<i32>,
    after_seq: i64,
    sweep_at: Instant,
    /// When a job was last claimed from it.
    gave_at: Option<Instant>,
    /// The mean payload size of the jobs of its last claim.
    job_bytes: usize,
    /// Empty or paused at the last check. It is not claimed from until a check finds work in it.
    is_resting: bool,
}

impl Line {
    fn gave_within(&self, time: Duration, now: Instant) -> bool {
        self.gave_at.is_some_and(|at| now < at + time)
    }
}

/// One claim to make, and which of its lanes it reads from the start.
pub(crate) struct Turn {
    pub(crate) wanted: Wanted,
    is_sweep: Vec<bool>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let started = Instant::now();
        Self {
            fair: Fair::new(),
            lanes: HashMap::new(),
            keys: HashMap::new(),
            foreign: Foreign::default(),
            foreign_rooms: Foreign::default(),
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
        let mut kept = 0;
        for lane in unnamed {
            if let Some(line) = self.lanes.get_mut(&lane)
                && kept < MAX_RECENT
                && line.gave_within(RECENT_FOR, now)
            {
                line.is_resting = true;
                self.fair.deactivate(lane);
                kept += 1;
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
            let new = || Line {
                rooms: Vec::new(),
                after_seq: 0,
                sweep_at: now,
                gave_at: None,
                job_bytes: 0,
                is_resting: false,
            };
            let line = self.lanes.entry(id).or_insert_with(new);
            (line.rooms, line.is_resting) = (found.rooms, false);
        }
    }

    /// Returns the lanes from which a job was claimed recently and that are not known to have work.
    pub(crate) fn recent(&self, now: Instant) -> Vec<i32> {
        let is_recent =
            |id: &i32, line: &Line| line.gave_within(RECENT_FOR, now) && !self.fair.is_active(*id);
        self.lanes
            .iter()
            .filter(|(id, line)| is_recent(id, line))
            .map(|(id, _)| *id)
            .take(MAX_RECENT)
            .collect()
    }

    /// Marks lanes in which a check of recent lanes found work.
    pub(crate) fn found(&mut self, lanes: &[i32]) {
        for lane in lanes {
            if let Some(line) = self.lanes.get_mut(lane) {
                line.is_resting = false;
                self.fair.activate(*lane);
            }
        }
    }

    /// Marks a lane as having work. Returns false if the lane is not known and must be looked up; a lane that is still
    /// unknown after that belongs to other workers, and its notifications are ignored for a while.
    pub(crate) fn wake(&mut self, lane: i32, now: Instant) -> bool {
        match self.lanes.get(&lane) {
            // It may be paused, so it is looked up.
            Some(line) if line.is_resting => false,
            Some(_) => {
                self.fair.activate(lane);
                true
            }
            None => self.foreign.is_believed(lane, now),
        }
    }

    /// Wakes the lanes of a running limit that has room again. Returns false if there are known lanes and it applies to
    /// none of them: the limit may be newer than the last search. Lanes that are not known have no work, or their own
    /// notification has announced them.
    pub(crate) fn wake_room(&mut self, room: i32, now: Instant) -> bool {
        let mut is_known = self.lanes.values().all(|line| line.is_resting);
        for (id, line) in &self.lanes {
            if line.rooms.contains(&room) && !line.is_resting {
                self.fair.activate(*id);
                is_known = true;
            }
        }
        is_known || self.foreign_rooms.is_believed(room, now)
    }

    /// Wakes the lanes from which jobs were claimed a moment ago. Returns false if there are none.
    pub(crate) fn wake_warm(&mut self, now: Instant) -> bool {
        let mut any = false;
        for (id, line) in &self.lanes {
            if line.gave_within(WARM_FOR, now) && !line.is_resting {
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

    /// Returns the next claim for this many slots; `None` if no lane is known to have work.
    pub(crate) fn deal(&mut self, slots: usize, now: Instant) -> Option<Turn> {
        self.deal_within(slots, now, |_, wanted| wanted)
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
        let mut turn = Turn { wanted: Wanted::default(), is_sweep: Vec::with_capacity(dealt.len()) };
        let mut bytes = CLAIM_BYTES;
        for (lane, dealt) in dealt {
            let Some(line) = self.lanes.get_mut(&lane) else { continue };
            let most = bytes / line.job_bytes.max(1);
            let count = if turn.wanted.lanes.is_empty() { dealt.min(most.max(1)) } else { dealt.min(most) };
            if count == 0 {
                self.fair.skip(lane, dealt);
                continue;
            }
            self.fair.give_back(lane, dealt - count);
            bytes = bytes.saturating_sub(count * line.job_bytes);
            let is_sweep = now >= line.sweep_at;
            turn.wanted.lanes.push(lane);
            turn.wanted.after_seqs.push(if is_sweep { 0 } else { line.after_seq });
            turn.wanted.counts.push(i32::try_from(count).unwrap_or(i32::MAX));
            turn.is_sweep.push(is_sweep);
        }
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
        for (position, &lane) in turn.wanted.lanes.iter().enumerate() {
            let Some(line) = self.lanes.get_mut(&lane) else { continue };
            let asked = usize::try_from(turn.wanted.counts[position]).unwrap_or(0);
            let (count, last, bytes) = got.get(&lane).copied().unwrap_or_default();
            line.after_seq = line.after_seq.max(last);
            if turn.is_sweep[position] {
                line.sweep_at = now + SWEEP_EVERY.max(self.sweep_cost * SWEEP_SHARE);
            }
            if let Some(mean) = bytes.checked_div(count) {
                line.gave_at = Some(now);
                line.job_bytes = mean;
            }
            self.fair.settle(lane, asked, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: Uuid = Uuid::from_u128(1);

    fn active(ids: &[i32]) -> Vec<ActiveLane> {
        let lane = |id: &i32| ActiveLane {
            id: *id,
            tenant: TENANT,
            priority: 100,
            definition_key: "a".to_owned(),
            weight: 1,
            rooms: Vec::new(),
        };
        ids.iter().map(lane).collect()
    }

    /// Claims once; every lane returns what was requested, in jobs of this size.
    fn claim(lines: &mut Lines, slots: usize, bytes: usize, now: Instant) -> Vec<(i32, i32)> {
        let Some(turn) = lines.deal(slots, now) else { return Vec::new() };
        let asked: Vec<(i32, i32)> =
            turn.wanted.lanes.iter().copied().zip(turn.wanted.counts.iter().copied()).collect();
        let taken =
            asked.iter().flat_map(|(lane, count)| (1..=*count).map(|seq| (*lane, i64::from(seq), bytes)));
        lines.settle(&turn, taken, now, Duration::ZERO);
        asked
    }

    #[test]
    fn a_recent_lane_is_idle_until_a_check_finds_work_in_it() {
        let now = Instant::now();
        let mut lines = Lines::new();
        lines.replace(active(&[1, 2]), now);
        claim(&mut lines, 8, 10, now);
        // Lane 1 is empty or paused; nothing is claimed from it, even after a notification, because it may be paused.
        lines.replace(active(&[2]), now);
        assert_eq!(lines.recent(now), [1]);
        assert!(!lines.wake(1, now), "it is looked up");
        lines.wake_warm(now);
        assert_eq!(claim(&mut lines, 8, 10, now), [(2, 8)]);
        lines.found(&[1]);
        assert_eq!(claim(&mut lines, 8, 10, now).len(), 2);
        // After a while without work it is removed.
        let later = now + RECENT_FOR;
        lines.replace(active(&[2]), later);
        assert!(lines.recent(later).is_empty());
    }

    /// A lane that did not fit into the bytes of a claim continues to age, and comes first in the end.
    #[test]
    fn a_lane_of_lower_priority_does_not_starve_behind_large_jobs() {
        let mut now = Instant::now();
        let mut lines = Lines::new();
        let mut found = active(&[1, 2]);
        found[1].priority = 110;
        lines.replace(found, now);
        claim(&mut lines, 8, CLAIM_BYTES, now);
        let mut served = HashSet::new();
        for _ in 0..3_000 {
            now += Duration::from_millis(5);
            served.extend(claim(&mut lines, 8, CLAIM_BYTES, now).iter().map(|(lane, _)| *lane));
        }
        assert_eq!(served.len(), 2, "15 seconds are more than the difference of their priorities");
    }

    #[test]
    fn a_claim_requests_a_bounded_number_of_bytes() {
        let now = Instant::now();
        let mut lines = Lines::new();
        lines.replace(active(&[1, 2, 3]), now);
        let large = CLAIM_BYTES / 2;
        assert_eq!(claim(&mut lines, 12, large, now).iter().map(|(_, count)| count).sum::<i32>(), 12);
        // Their size is known now. Jobs that were not requested cause no disadvantage, and no lane is skipped.
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let asked = claim(&mut lines, 12, large, now);
            assert_eq!(asked.iter().map(|(_, count)| count).sum::<i32>(), 2);
            seen.extend(asked.iter().map(|(lane, _)| *lane));
        }
        assert_eq!(seen.len(), 3);
        // A single job may be larger than that.
        claim(&mut lines, 2, CLAIM_BYTES * 4, now);
        claim(&mut lines, 2, CLAIM_BYTES * 4, now);
        assert_eq!(claim(&mut lines, 12, CLAIM_BYTES * 4, now).len(), 1);
    }
}
