//! The definitions of the model's jobs, and the decisions about their attempts.

use windlass::internals::settle::{Budget, Outcome, RetryPolicy, Settlement, settle};
use windlass::job::Backoff;
use windlass::job::{OnLost, OnTimeout};

use super::operation::TICK;

/// A definition. Delays do not vary, so that the model can predict them.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) key: &'static str,
    pub(super) max_attempts: i16,
    pub(super) max_lost: i16,
    pub(super) max_snoozes: i32,
    pub(super) on_timeout: OnTimeout,
    pub(super) on_lost: OnLost,
    pub(super) start_deadline: Option<i64>,
}

pub(super) const DEFINITIONS: [Definition; 2] = [
    Definition {
        key: "patient",
        max_attempts: 3,
        max_lost: 2,
        max_snoozes: 1,
        on_timeout: OnTimeout::Retry,
        on_lost: OnLost::Retry,
        start_deadline: None,
    },
    Definition {
        key: "touchy",
        max_attempts: 2,
        max_lost: 3,
        max_snoozes: 2,
        on_timeout: OnTimeout::Fail,
        on_lost: OnLost::Fail,
        start_deadline: Some(2),
    },
];

impl Definition {
    /// The engine's decision, with the smallest random number: a lost job is due at once.
    pub(super) fn decide(&self, budget: &Budget, outcome: Outcome) -> Settlement {
        let backoff = self.backoff();
        let policy = RetryPolicy { backoff, on_timeout: self.on_timeout, on_lost: self.on_lost };
        let budget = Budget { max_lost: self.max_lost, max_snoozes: self.max_snoozes, ..*budget };
        settle(&budget, &policy, outcome, 0.0)
    }

    pub(super) fn backoff(&self) -> Backoff {
        Backoff::fixed(TICK).factor(1.0).jitter(0.0)
    }
}
