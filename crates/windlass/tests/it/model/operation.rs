//! The operations on the queue, and how likely each is. Jobs, runs and workers are numbers in the reference's lists, so a shrunk
//! case is still valid. Time is counted in ticks.

use std::time::Duration;

use proptest::prelude::*;
use windlass::internals::settle::{Outcome, Retry};
use windlass::job::{IfUnmet, Unique};

use super::reference::{LANES, Reference, WORKERS};

/// Longer than a case takes, so that only [`Operation::Pass`] makes anything due.
pub(super) const TICK: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Enqueue(Request),
    Claim {
        worker: usize,
        is_late: bool,
        most: [usize; LANES],
    },
    Settle {
        run: usize,
        is_forged: bool,
        ending: Ending,
    },
    /// The worker got no response to a claim, which took nothing.
    GiveUp {
        worker: usize,
    },
    CompleteAll {
        worker: usize,
    },
    Heartbeat {
        worker: usize,
    },
    /// The worker's lease expires.
    Silence {
        worker: usize,
    },
    Reap,
    Restart {
        worker: usize,
    },
    Pass {
        ticks: i64,
    },
    Promote,
    Expire,
    Cancel {
        job: usize,
    },
    Retry {
        job: usize,
    },
    /// By retention, which keeps dedupe keys, or by an operator.
    Purge {
        job: usize,
        keeps_promises: bool,
    },
    Fold,
    UnblockAll,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Request {
    pub(super) definition: usize,
    pub(super) delay: Option<i64>,
    pub(super) dedupe: Option<(u8, Unique)>,
    pub(super) idempotency: Option<u8>,
    pub(super) ordering: Option<u8>,
    pub(super) needs: Vec<usize>,
    /// Names a dependency that never existed, so it is rejected unless it is a duplicate.
    pub(super) needs_nobody: bool,
    pub(super) if_unmet: Option<IfUnmet>,
    pub(super) deadline: Option<i64>,
    pub(super) max_attempts: Option<i16>,
}

#[derive(Debug, Clone)]
pub(super) enum Ending {
    Plain(Outcome),
    /// Succeeds and enqueues another job.
    Chain(Request),
}

impl Ending {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Plain(outcome) => *outcome,
            Self::Chain(_) => Outcome::Succeeded,
        }
    }
}

pub(super) fn any(reference: &Reference) -> BoxedStrategy<Operation> {
    let worker = 0..WORKERS;
    let mut choices = vec![
        (10, request(reference.jobs.len()).prop_map(Operation::Enqueue).boxed()),
        (8, claim().boxed()),
        (1, worker.clone().prop_map(|worker| Operation::GiveUp { worker }).boxed()),
        (1, worker.clone().prop_map(|worker| Operation::CompleteAll { worker }).boxed()),
        (1, worker.clone().prop_map(|worker| Operation::Heartbeat { worker }).boxed()),
        (2, worker.clone().prop_map(|worker| Operation::Silence { worker }).boxed()),
        (3, Just(Operation::Reap).boxed()),
        (1, worker.prop_map(|worker| Operation::Restart { worker }).boxed()),
        (3, (1..4i64).prop_map(|ticks| Operation::Pass { ticks }).boxed()),
        (3, Just(Operation::Promote).boxed()),
        (2, Just(Operation::Expire).boxed()),
        (1, Just(Operation::Fold).boxed()),
        (1, Just(Operation::UnblockAll).boxed()),
    ];
    let jobs: Vec<usize> = reference.made().collect();
    if !jobs.is_empty() {
        let job = || prop::sample::select(jobs.clone());
        let purge = (job(), proptest::bool::ANY)
            .prop_map(|(job, keeps_promises)| Operation::Purge { job, keeps_promises });
        choices.push((3, job().prop_map(|job| Operation::Cancel { job }).boxed()));
        choices.push((4, job().prop_map(|job| Operation::Retry { job }).boxed()));
        choices.push((1, purge.boxed()));
    }
    if !reference.runs.is_empty() {
        choices.push((2, settle((0..reference.runs.len()).boxed()).boxed()));
        let current: Vec<usize> = reference.current_runs().collect();
        if !current.is_empty() {
            choices.push((12, settle(prop::sample::select(current).boxed()).boxed()));
        }
    }
    prop::strategy::Union::new_weighted(choices).boxed()
}

fn request(jobs: usize) -> impl Strategy<Value = Request> {
    let unique = prop_oneof![
        3 => Just(Unique::Active),
        1 => (1..4u32).prop_map(|ticks| Unique::Window(TICK * ticks)),
        1 => Just(Unique::Forever),
    ];
    // The same two names for every kind of key: a name of one kind must mean nothing to another.
    let key = || prop::option::weighted(0.3, 0..2u8);
    let needs = prop::collection::vec(0..jobs.max(1), if jobs == 0 { 0..1 } else { 0..3 });
    let if_unmet = prop::option::of(prop::sample::select(vec![IfUnmet::Cancel, IfUnmet::Run, IfUnmet::Wait]));
    (
        (0..2usize, prop::option::weighted(0.2, 1..4i64), prop::option::weighted(0.3, (0..2u8, unique))),
        (
            prop::option::weighted(0.1, 0..2u8),
            key(),
            prop_oneof![2 => Just(Vec::new()), 1 => needs],
            if_unmet,
        ),
        (prop::option::weighted(0.2, 1..5i64), prop::option::of(1..4i16), prop::bool::weighted(0.05)),
    )
        .prop_map(
            |(
                (definition, delay, dedupe),
                (idempotency, ordering, needs, if_unmet),
                (deadline, max_attempts, needs_nobody),
            )| {
                Request {
                    definition,
                    delay,
                    dedupe,
                    idempotency,
                    ordering,
                    needs,
                    needs_nobody,
                    if_unmet,
                    deadline,
                    max_attempts,
                }
            },
        )
}

fn claim() -> impl Strategy<Value = Operation> {
    (0..WORKERS, prop::bool::weighted(0.1), prop::array::uniform4(0..3usize))
        .prop_map(|(worker, is_late, most)| Operation::Claim { worker, is_late, most })
}

fn settle(run: BoxedStrategy<usize>) -> impl Strategy<Value = Operation> {
    let chain = request(0).prop_map(|next| Ending::Chain(Request { deadline: None, ..next }));
    let delay = || (0..3u32).prop_map(|ticks| TICK * ticks);
    let plain = prop_oneof![
        3 => Just(Outcome::Succeeded),
        2 => Just(Outcome::Failed { retry: Retry::ByPolicy }),
        1 => delay().prop_map(|delay| Outcome::Failed { retry: Retry::After(delay) }),
        1 => Just(Outcome::Failed { retry: Retry::Permanent }),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::Canceled),
        1 => delay().prop_map(|delay| Outcome::Snoozed { delay }),
        2 => Just(Outcome::Released),
    ];
    let ending = prop_oneof![9 => plain.prop_map(Ending::Plain), 2 => chain];
    (run, prop::bool::weighted(0.1), ending).prop_map(|(run, is_forged, ending)| Operation::Settle {
        run,
        is_forged,
        ending,
    })
}
