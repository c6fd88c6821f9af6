//! One waiting claim, and the claims that have arrived and have no group yet.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::pull::interest::ClaimPermit;
use crate::pull::{Claim, PulledJob, ask};

/// The maximum number of claims of one tenant that are taken in together, before jobs are claimed for those that are
/// known.
pub(super) const PER_TURN: usize = 64;

/// One waiting claim.
#[derive(Debug)]
pub(in crate::pull) struct Waiter {
    /// Held until the claim gets its response or is dropped here.
    pub(super) permit: ClaimPermit,
    pub(in crate::pull) worker: i32,
    pub(super) limit: usize,
    pub(super) lease_seconds: i32,
    pub(super) waits: bool,
    reply: oneshot::Sender<Vec<PulledJob>>,
}

impl Waiter {
    pub(in crate::pull) fn new(
        claim: &Claim,
        permit: ClaimPermit,
        worker: i32,
        reply: oneshot::Sender<Vec<PulledJob>>,
    ) -> Self {
        let lease_seconds = ask::whole_seconds(claim.lease);
        Self { permit, worker, limit: claim.limit, lease_seconds, waits: !claim.wait.is_zero(), reply }
    }

    /// Whether the caller no longer waits.
    pub(super) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Sends the jobs to the claim, or returns them if it no longer waits.
    pub(in crate::pull) fn answer(self, jobs: Vec<PulledJob>) -> Result<(), Vec<PulledJob>> {
        self.reply.send(jobs)
    }
}

/// The claims of each tenant that have not been taken in yet, in the order of arrival.
#[derive(Default)]
pub(in crate::pull) struct Arrivals(HashMap<Option<Uuid>, VecDeque<Waiter>>);

impl Arrivals {
    pub(in crate::pull) fn push(&mut self, waiter: Waiter) {
        if !waiter.is_gone() {
            self.0.entry(waiter.permit.interest.tenant).or_default().push_back(waiter);
        }
    }

    pub(in crate::pull) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next claims of every tenant, a bounded number of each. Those whose caller has disconnected are
    /// dropped.
    pub(in crate::pull) fn turn(&mut self) -> Vec<Waiter> {
        let mut turn = Vec::new();
        for of_tenant in self.0.values_mut() {
            let mut taken = 0;
            while taken < PER_TURN
                && let Some(waiter) = of_tenant.pop_front()
            {
                if !waiter.is_gone() {
                    taken += 1;
                    turn.push(waiter);
                }
            }
        }
        self.0.retain(|_, of_tenant| !of_tenant.is_empty());
        turn
    }
}
