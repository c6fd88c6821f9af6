//! The queue compared with a model of it. A case is a sequence of operations on several workers and two tenants; after each, the
//! model and the database must agree on every job, key, deadline, worker and counter.
//!
//! `PROPTEST_CASES` sets how many cases run, `PROPTEST_RNG_SEED` repeats the ones that a failure names.

mod check;
mod definition;
mod operation;
mod race;
mod reference;
mod system;
mod words;

use std::cell::RefCell;
use std::env;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use windlass_testing::times;

use operation::Operation;
use reference::Reference;
use system::{Case, System};

/// Of up to [`STEPS`] operations each, in a full run; a normal run tries half of them, with another seed each time.
const CASES: u32 = 80;
const STEPS: usize = 80;

#[test]
fn the_queue_behaves_like_its_model() {
    SYSTEM.set(Some(System::create()));
    let cases = env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(times(CASES / 2, CASES));
    let seed = env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let outcome = TestRunner::new(config.clone()).run(
        &Reference::sequential_strategy(STEPS / 2..STEPS),
        |(reference, operations, seen)| {
            Real::test_sequential(config.clone(), reference, operations, seen);
            Ok(())
        },
    );
    SYSTEM.set(None);
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, (_, operations, _))) => {
            let operations: String = operations.iter().map(|operation| format!("{operation:?}\n")).collect();
            panic!("{why}\nafter\n{operations}repeat with PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}");
        }
        Err(TestError::Abort(why)) => panic!("aborted: {why}"),
    }
}

thread_local! {
    /// The runner passes no argument to its cases.
    static SYSTEM: RefCell<Option<System>> = const { RefCell::new(None) };
}

struct Real;

impl StateMachineTest for Real {
    type SystemUnderTest = Case;
    type Reference = Reference;

    fn init_test(_: &Reference) -> Case {
        with_system(System::begin)
    }

    fn apply(mut case: Case, reference: &Reference, operation: Operation) -> Case {
        with_system(|system| {
            system.apply(&mut case, reference, &operation);
            system.check(&case, reference);
        });
        case
    }
}

fn with_system<T>(act: impl FnOnce(&System) -> T) -> T {
    SYSTEM.with_borrow(|system| act(system.as_ref().expect("the test created it before it ran a case")))
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Operation;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(reference: &Self) -> BoxedStrategy<Operation> {
        operation::any(reference)
    }

    fn apply(mut reference: Self, operation: &Operation) -> Self {
        reference.apply(operation);
        reference
    }

    /// The objects of a shrunk case must still exist.
    fn preconditions(reference: &Self, operation: &Operation) -> bool {
        let jobs = reference.jobs.len();
        match operation {
            Operation::Enqueue(request) => request.needs.iter().all(|&need| need < jobs),
            Operation::Settle { run, .. } => *run < reference.runs.len(),
            Operation::Cancel { job } | Operation::Retry { job } | Operation::Purge { job, .. } => {
                *job < jobs
            }
            _ => true,
        }
    }
}
