//! What becomes of a job when an attempt ends. Every attempt ends here, whoever ran it and however it went.
//!
//! The function is total: any counters, any delay and any random number give a settlement, because a job that cannot be
//! settled is stuck forever. It only decides. Whether the decision still counts is for the guarded statement that applies
//! it: that statement checks the fence, and checks again for a cancel request that came in between ([`after_cancel`]).

use std::time::Duration;

use super::backoff::{Backoff, LONGEST_RETRY_DELAY, unit};
use super::state::{AttemptOutcome, State};

/// A job whose worker vanished comes back within this time, at an instant drawn at random: the jobs of a dead worker must
/// not all start at once, and its successor, which may die of the same cause, should get a moment to be noticed.
pub const RECOVERY_SPREAD: Duration = Duration::from_secs(5);

/// Decides where the job goes. `random` is drawn from [0, 1).
#[must_use]
pub fn settle(budget: &Budget, policy: &RetryPolicy, outcome: Outcome, random: f64) -> Settlement {
    let settlement = match outcome {
        Outcome::Succeeded => budget.uncharged(AttemptOutcome::Succeeded, Next::Succeeded, None),
        Outcome::Failed { retry } => failed(budget, policy, retry, random),
        Outcome::TimedOut => timed_out(budget, policy, random),
        Outcome::Canceled => {
            budget.uncharged(AttemptOutcome::Canceled, Next::Canceled, Some(EndReason::CancelRequested))
        }
        Outcome::Snoozed { delay } => snoozed(budget, delay),
        Outcome::Released => budget.uncharged(AttemptOutcome::Released, Next::Queued, None),
        Outcome::Lost => lost(budget, policy, random),
    };
    if budget.cancel_requested { after_cancel(settlement) } else { settlement }
}

/// The same attempt, had it ended under a cancel request: whatever it did, the job ends as canceled, also when it succeeded.
/// What the attempt cost stays counted. An attempt that was lost stays `lost`, since nobody was there to acknowledge.
#[must_use]
pub fn after_cancel(settlement: Settlement) -> Settlement {
    let attempt_outcome = match settlement.attempt_outcome {
        AttemptOutcome::Lost => AttemptOutcome::Lost,
        AttemptOutcome::Succeeded
        | AttemptOutcome::Failed
        | AttemptOutcome::Timeout
        | AttemptOutcome::Canceled
        | AttemptOutcome::Snoozed
        | AttemptOutcome::Released => AttemptOutcome::Canceled,
    };
    Settlement {
        attempt_outcome,
        next: Next::Canceled,
        reason: Some(EndReason::CancelRequested),
        ..settlement
    }
}

/// What the job has used up before this attempt ended, and what it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The attempt's number: the fence. It decides nothing here, and no budget is counted by it.
    pub attempt: i32,
    /// Counted failures, timeouts and lost leases, against `max_attempts`.
    pub failures: i16,
    /// Lost leases alone, against `max_lost`.
    pub lost: i16,
    /// Snoozes so far.
    pub snoozes: i32,
    /// The most failures before the job is a dead letter.
    pub max_attempts: i16,
    /// The most lost leases before the job is a dead letter.
    pub max_lost: i16,
    /// The most snoozes before the job is a dead letter.
    pub max_snoozes: i32,
    /// Whether a cancel was requested.
    pub cancel_requested: bool,
    /// Time until the job's deadline, if it has one; zero once it has passed.
    pub remaining: Option<Duration>,
}

/// What the definition says about trying again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RetryPolicy {
    /// The delay before a retry.
    pub backoff: Backoff,
    /// What happens after a timeout.
    pub on_timeout: OnTimeout,
    /// What happens after a lost lease.
    pub on_lost: OnLost,
}

/// What happens to a job whose attempt timed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnTimeout {
    /// It is retried, while attempts are left.
    #[default]
    Retry,
    /// It fails permanently.
    Fail,
}

/// What happens to a job whose worker lost its lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnLost {
    /// It is retried, while `max_lost` allows.
    #[default]
    Retry,
    /// It fails permanently.
    Fail,
}

/// How the attempt went, as its runner or the reaper saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed {
        /// When to try again.
        retry: Retry,
    },
    /// It ran longer than its timeout.
    TimedOut,
    /// The handler stopped because it was asked to.
    Canceled,
    /// The handler has nothing to do yet and asks to be run again.
    Snoozed {
        /// How long to wait.
        delay: Duration,
    },
    /// The worker shuts down and gives the job back unharmed.
    Released,
    /// The worker's lease ran out.
    Lost,
}

/// What a handler says about its failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    Permanent,
    /// As the definition's backoff says.
    ByPolicy,
    /// After this time.
    After(Duration),
}

/// The decision, and the counters as they stand after the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// How the attempt ended.
    pub attempt_outcome: AttemptOutcome,
    /// Where the job moves.
    pub next: Next,
    /// Why, where that is not obvious.
    pub reason: Option<EndReason>,
    /// Failures counted so far.
    pub failures: i16,
    /// Lost leases counted so far.
    pub lost: i16,
    /// Snoozes so far.
    pub snoozes: i32,
}

/// Where a job goes from running. The delay counts from the database's clock at the moment of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It succeeded.
    Succeeded,
    /// It failed permanently.
    Failed,
    /// It ran out of attempts.
    DeadLetter,
    /// It was canceled.
    Canceled,
    /// It runs again now.
    Queued,
    /// It runs again later.
    Scheduled {
        /// The delay.
        after: Duration,
    },
}

impl Next {
    /// Returns the state of the job after the move.
    pub const fn state(self) -> State {
        match self {
            Self::Succeeded => State::Succeeded,
            Self::Failed => State::Failed,
            Self::DeadLetter => State::DeadLetter,
            Self::Canceled => State::Canceled,
            Self::Queued => State::Queued,
            Self::Scheduled { after: _ } => State::Scheduled,
        }
    }
}

/// Why a job ended other than by success. The words are stored and shown, so they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its attempts are exhausted.
    BudgetSpent,
    /// It kept losing its worker.
    Poison,
    /// Its snoozes are exhausted.
    SnoozeBudget,
    /// Its next start would have come at or after its deadline.
    DeadlinePassed,
    /// The handler said that trying again is no use.
    Permanent,
    /// It timed out, and its definition does not retry that.
    Timeout,
    /// It lost its worker, and its definition does not retry that.
    Lost,
    /// A cancel was requested.
    CancelRequested,
}

impl EndReason {
    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BudgetSpent => "budget_spent",
            Self::Poison => "poison",
            Self::SnoozeBudget => "snooze_budget",
            Self::DeadlinePassed => "deadline_passed",
            Self::Permanent => "permanent",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::CancelRequested => "cancel_requested",
        }
    }
}

fn failed(budget: &Budget, policy: &RetryPolicy, retry: Retry, random: f64) -> Settlement {
    let delay = match retry {
        Retry::Permanent => {
            return budget.charged(AttemptOutcome::Failed, Next::Failed, Some(EndReason::Permanent));
        }
        Retry::ByPolicy => budget.backoff(policy, random),
        Retry::After(delay) => delay,
    };
    let (next, reason) = budget.retry(delay);
    budget.charged(AttemptOutcome::Failed, next, reason)
}

fn timed_out(budget: &Budget, policy: &RetryPolicy, random: f64) -> Settlement {
    let (next, reason) = match policy.on_timeout {
        OnTimeout::Fail => (Next::Failed, Some(EndReason::Timeout)),
        OnTimeout::Retry => budget.retry(budget.backoff(policy, random)),
    };
    budget.charged(AttemptOutcome::Timeout, next, reason)
}

fn lost(budget: &Budget, policy: &RetryPolicy, random: f64) -> Settlement {
    let lost = budget.lost.saturating_add(1);
    let (next, reason) = if lost >= budget.max_lost {
        (Next::DeadLetter, Some(EndReason::Poison))
    } else {
        match policy.on_lost {
            // A spent budget is the sharper reason; only a job that would have run again fails for being lost.
            OnLost::Fail if !budget.is_last_failure() => (Next::Failed, Some(EndReason::Lost)),
            OnLost::Fail | OnLost::Retry => budget.retry(RECOVERY_SPREAD.mul_f64(unit(random))),
        }
    };
    Settlement { lost, ..budget.charged(AttemptOutcome::Lost, next, reason) }
}

fn snoozed(budget: &Budget, delay: Duration) -> Settlement {
    if budget.snoozes >= budget.max_snoozes {
        return budget.uncharged(AttemptOutcome::Snoozed, Next::Failed, Some(EndReason::SnoozeBudget));
    }
    let (next, reason) = match budget.scheduled(delay) {
        Some(next) => (next, None),
        None => (Next::Failed, Some(EndReason::DeadlinePassed)),
    };
    Settlement { snoozes: budget.snoozes + 1, ..budget.uncharged(AttemptOutcome::Snoozed, next, reason) }
}

impl Budget {
    /// Another attempt after `delay`, unless this failure was the last one allowed or the deadline comes first.
    fn retry(&self, delay: Duration) -> (Next, Option<EndReason>) {
        if self.is_last_failure() {
            return (Next::DeadLetter, Some(EndReason::BudgetSpent));
        }
        match self.scheduled(delay) {
            Some(next) => (next, None),
            None => (Next::DeadLetter, Some(EndReason::DeadlinePassed)),
        }
    }

    fn is_last_failure(&self) -> bool {
        self.failures.saturating_add(1) >= self.max_attempts
    }

    fn scheduled(&self, delay: Duration) -> Option<Next> {
        let after = delay.min(LONGEST_RETRY_DELAY);
        let in_time = self.remaining.is_none_or(|remaining| after < remaining);
        in_time.then_some(Next::Scheduled { after })
    }

    fn backoff(&self, policy: &RetryPolicy, random: f64) -> Duration {
        policy.backoff.delay(u32::from(self.failures.max(0).unsigned_abs()), random)
    }

    fn charged(&self, attempt_outcome: AttemptOutcome, next: Next, reason: Option<EndReason>) -> Settlement {
        let failures = self.failures.saturating_add(1);
        Settlement { failures, ..self.uncharged(attempt_outcome, next, reason) }
    }

    fn uncharged(
        &self,
        attempt_outcome: AttemptOutcome,
        next: Next,
        reason: Option<EndReason>,
    ) -> Settlement {
        let Self { failures, lost, snoozes, .. } = *self;
        Settlement { attempt_outcome, next, reason, failures, lost, snoozes }
    }
}

#[cfg(test)]
mod tests;
