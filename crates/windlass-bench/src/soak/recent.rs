//! The last jobs that were acknowledged: those that operators choose from, and that new jobs depend on.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use uuid::Uuid;

/// How many are remembered.
const MOST: usize = 300;

#[derive(Debug, Default)]
pub(crate) struct Recent {
    jobs: Mutex<VecDeque<(Uuid, Uuid)>>,
}

impl Recent {
    pub(crate) fn add(&self, tenant: Uuid, job: Uuid) {
        let mut jobs = self.jobs.lock();
        jobs.push_back((tenant, job));
        if jobs.len() > MOST {
            jobs.pop_front();
        }
    }

    /// The newest job of the tenant, or one of those before it: likely to wait or to run.
    pub(crate) fn newest_of(&self, tenant: Uuid, skip: usize) -> Option<Uuid> {
        let jobs = self.jobs.lock();
        jobs.iter().rev().filter(|(owner, _)| *owner == tenant).map(|(_, job)| *job).nth(skip)
    }

    /// At most this many different jobs of the tenant.
    pub(crate) fn some_of(&self, tenant: Uuid, most: usize, random: &mut StdRng) -> Vec<Uuid> {
        let jobs = self.jobs.lock();
        let of_tenant = jobs.iter().filter(|(owner, _)| *owner == tenant).map(|(_, job)| *job);
        let mut chosen = of_tenant.choose_multiple(random, most);
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}
