//! The waiting claims with one request.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::{MAX, Waiter};
use crate::lane::cursors::LaneCursors;
use crate::pull::interest::Interest;
use crate::pull::leftovers::Backlog;
use crate::store::pull::ClaimSlots;

/// The claims with the same request, and the lanes for it.
pub(in crate::pull) struct Group {
    pub(super) interest: Arc<Interest>,
    pub(in crate::pull) waiters: VecDeque<Waiter>,
    pub(in crate::pull) cursors: LaneCursors,
    /// The running limits of its lanes.
    pub(super) limits: HashSet<i32>,
    pub(in crate::pull) backlog: Backlog,
    /// How many jobs are claimed for it at once: fewer while they are large.
    pub(in crate::pull) most: usize,
    pub(super) last_used: Instant,
    /// Its position among the unused groups of its tenant, while no claim waits.
    pub(super) unused: Option<u64>,
    /// It waits for its turn.
    pub(super) is_ready: bool,
}

impl Group {
    pub(super) fn new(interest: Arc<Interest>, now: Instant) -> Self {
        Self {
            interest,
            waiters: VecDeque::new(),
            cursors: LaneCursors::new(),
            limits: HashSet::new(),
            backlog: Backlog::default(),
            most: MAX,
            last_used: now,
            unused: None,
            is_ready: false,
        }
    }

    /// Returns one slot for each job that may be assigned now, distributed round-robin among the waiting claims, and
    /// the claim of each slot.
    pub(in crate::pull) fn slots(&mut self, is_draining: impl Fn(i32) -> bool) -> (ClaimSlots, Vec<usize>) {
        let most = self.most;
        self.waiters.retain(|waiter| !waiter.is_gone());
        let mut slots = ClaimSlots::default();
        let mut owners = Vec::new();
        let able: Vec<usize> =
            (0..self.waiters.len()).filter(|&n| !is_draining(self.waiters[n].worker)).take(most).collect();
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
