//! What the feed remembers of the lanes it serves: whose turn it is, how far each was read, and when to read it whole.
//!
//! A cursor spares a claim the dead index entries of finished jobs, which is what keeps the queue quick while an old
//! transaction holds up the vacuum. It is only a hint: a row that committed late lies behind it, so every lane is read
//! from its start now and then, the less often the longer that takes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::fair::{Fair, Lane};
use crate::store::worker::{ActiveLane, Wanted};

/// A lane is read from its start at most this often, and at most for a twentieth of the time.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
const SWEEP_SHARE: u32 = 20;
/// For this long after it gave a job a lane is asked again without being told that it has one.
const WARM_FOR: Duration = Duration::from_millis(50);
const FOREIGN_FOR: Duration = Duration::from_secs(5);

pub(crate) struct Lines {
    fair: Fair,
    lanes: HashMap<i32, Line>,
    keys: HashMap<i32, Arc<str>>,
    foreign: Foreign,
    foreign_rooms: Foreign,
    started: Instant,
    sweep_cost: Duration,
}

/// Numbers that were rung but turned out not to be ours, and until when to believe that.
#[derive(Default)]
pub(crate) struct Foreign(HashMap<i32, Instant>);

impl Foreign {
    /// Forgets all of them: what was nobody's may be somebody's now.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether this number is known not to be ours. If not, it counts as such from now on: the caller looks it up.
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
    /// The running limits that it is under.
    rooms: Vec<i32>,
    after_seq: i64,
    sweep_at: Instant,
    warm_until: Instant,
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

    /// The definition of each known lane.
    pub(crate) fn keys(&self) -> &HashMap<i32, Arc<str>> {
        &self.keys
    }

    /// Takes over what the database says has work. Lanes it does not name are forgotten: they are empty or paused.
    pub(crate) fn replace(&mut self, active: Vec<ActiveLane>, now: Instant) {
        let named: std::collections::HashSet<i32> = active.iter().map(|found| found.id).collect();
        let gone: Vec<i32> = self.lanes.keys().copied().filter(|lane| !named.contains(lane)).collect();
        for lane in gone {
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
            let new = || Line { rooms: Vec::new(), after_seq: 0, sweep_at: now, warm_until: now };
            self.lanes.entry(id).or_insert_with(new).rooms = found.rooms;
        }
    }

    /// There is work in this lane. False if the lane is not known and must be looked up; a lane that is still unknown
    /// after that belongs to others, and its bell is ignored for a while.
    pub(crate) fn wake(&mut self, lane: i32, now: Instant) -> bool {
        if self.lanes.contains_key(&lane) {
            self.fair.activate(lane);
            return true;
        }
        self.foreign.is_believed(lane, now)
    }

    /// There is room again under this running limit: lanes that a claim left because of it are asked again. False if lanes are
    /// known and none is under it: the limit may be newer than the last look. Lanes that are not known hold nothing, or their own
    /// bell has told of them.
    pub(crate) fn wake_room(&mut self, room: i32, now: Instant) -> bool {
        let mut is_known = self.lanes.is_empty();
        for (id, line) in &self.lanes {
            if line.rooms.contains(&room) {
                self.fair.activate(*id);
                is_known = true;
            }
        }
        is_known || self.foreign_rooms.is_believed(room, now)
    }

    /// Asks the lanes again that gave something a moment ago. False if there are none.
    pub(crate) fn wake_warm(&mut self, now: Instant) -> bool {
        let mut any = false;
        for (id, line) in &self.lanes {
            if now < line.warm_until {
                self.fair.activate(*id);
                any = true;
            }
        }
        any
    }

    /// Whose turn it is, for this many slots; none if no lane is known to have work.
    pub(crate) fn deal(&mut self, slots: usize, now: Instant) -> Option<Turn> {
        self.deal_within(slots, now, |_, wanted| wanted)
    }

    /// The same, where `grant` says how many of the wanted slots a tenant may have.
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
        for (lane, count) in dealt {
            let Some(line) = self.lanes.get_mut(&lane) else { continue };
            let is_sweep = now >= line.sweep_at;
            turn.wanted.lanes.push(lane);
            turn.wanted.after_seqs.push(if is_sweep { 0 } else { line.after_seq });
            turn.wanted.counts.push(i32::try_from(count).unwrap_or(i32::MAX));
            turn.is_sweep.push(is_sweep);
        }
        Some(turn)
    }

    /// Whether the last deal passed over a tenant with work, because it has all the slots that it may have.
    pub(crate) fn holds_back(&self) -> bool {
        self.fair.holds_back()
    }

    /// What the claim brought: the sequence numbers taken from each lane.
    pub(crate) fn settle(
        &mut self,
        turn: &Turn,
        taken: impl Iterator<Item = (i32, i64)>,
        now: Instant,
        took: Duration,
    ) {
        let mut got: HashMap<i32, (usize, i64)> = HashMap::with_capacity(turn.wanted.lanes.len());
        for (lane, seq) in taken {
            let entry = got.entry(lane).or_insert((0, seq));
            entry.0 += 1;
            entry.1 = entry.1.max(seq);
        }
        if turn.is_sweep.contains(&true) {
            self.sweep_cost = took;
        }
        for (position, &lane) in turn.wanted.lanes.iter().enumerate() {
            let Some(line) = self.lanes.get_mut(&lane) else { continue };
            let asked = usize::try_from(turn.wanted.counts[position]).unwrap_or(0);
            let (count, last) = got.get(&lane).copied().unwrap_or((0, 0));
            line.after_seq = line.after_seq.max(last);
            if turn.is_sweep[position] {
                line.sweep_at = now + SWEEP_EVERY.max(self.sweep_cost * SWEEP_SHARE);
            }
            if count > 0 {
                line.warm_until = now + WARM_FOR;
            }
            self.fair.settle(lane, asked, count);
        }
    }
}
