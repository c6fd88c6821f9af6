//! What happens to a job when an attempt ends. Every attempt ends here, regardless of who ran it and how it ended.
//!
//! The function is total: any counters, any delay and any random number result in a settlement, because a job that
//! cannot be settled is stuck forever. It only decides. The guarded statement that applies the decision checks the
//! fence, and checks again for a cancel request that arrived meanwhile ([`after_cancel`]).

use std::time::Duration;

use super::backoff::{Backoff, MAX_RETRY_DELAY, unit};
use super::state::{AttemptOutcome, State};

/// A job whose worker was lost is retried within this time, at a random instant: the jobs of a lost worker must not all
/// start at the same time, and if they crash the next worker too, there is time to notice.
pub const RECOVERY_SPREAD: Duration = Duration::from_secs(5);

/// Decides the next state of the job. `random` is in [0, 1).
#[must_use]
pub fn settle(budget: &Budget, policy: &RetryPolicy, outcome: Outcome, random: f64) -> Settlement {
    let settlement = match outcome {
        Outcome::Succeeded => budget.uncounted(AttemptOutcome::Succeeded, Next::Succeeded, None),
        Outcome::Failed { retry } => failed(budget, policy, retry, random),
        Outcome::TimedOut => timed_out(budget, policy, random),
        Outcome::Canceled => {
            budget.uncounted(AttemptOutcome::Canceled, Next::Canceled, Some(EndReason::CancelRequested))
        }
        Outcome::Snoozed { delay } => snoozed(budget, delay),
        Outcome::Released => budget.uncounted(AttemptOutcome::Released, Next::Queued, None),
        Outcome::Lost => lost(budget, policy, random),
    };
    if budget.cancel_requested { after_cancel(settlement) } else { settlement }
}

/// The settlement of the same attempt if cancellation was requested: the job ends as canceled, even if the attempt
/// succeeded. The counters stay as settled. A lost attempt stays `lost`, because no worker acknowledged the request.
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

/// The counters of the job before this attempt ended, and their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The number of the attempt, for the fence. Nothing is decided or counted by it.
    pub attempt: i32,
    /// Counted failures, timeouts and lost leases; limited by `max_attempts`.
    pub failures: i16,
    /// Lost leases alone; limited by `max_lost`.
    pub lost: i16,
    /// Snoozes so far.
    pub snoozes: i32,
    /// The maximum number of failures; then the job is a dead letter.
    pub max_attempts: i16,
    /// The maximum number of lost leases; then the job is a dead letter.
    pub max_lost: i16,
    /// The maximum number of snoozes; then the job fails.
    pub max_snoozes: i32,
    /// Whether a cancel was requested.
    pub cancel_requested: bool,
    /// Time until the job's deadline, if it has one; zero once it has passed.
    pub remaining: Option<Duration>,
}

/// The retry policies of a definition.
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
///
/// ```
/// use std::time::Duration;
/// use windlass::Definition;
/// use windlass::job::OnTimeout;
///
/// // A second attempt would take as long.
/// let definition = Definition::new("train").timeout(Duration::from_secs(3600), OnTimeout::Fail);
/// # let _ = definition;
/// assert_eq!(OnTimeout::default(), OnTimeout::Retry);
/// ```
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
///
/// ```
/// use windlass::Definition;
/// use windlass::job::OnLost;
///
/// // The payment may have been made before the worker was lost.
/// let definition = Definition::new("pay").on_lost(OnLost::Fail);
/// # let _ = definition;
/// assert_eq!(OnLost::default(), OnLost::Retry);
/// ```
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

/// The outcome of the attempt, as seen by its worker or by the reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed {
        /// When to retry.
        retry: Retry,
    },
    /// It ran longer than its timeout.
    TimedOut,
    /// The handler stopped because cancellation was requested.
    Canceled,
    /// The handler has nothing to do yet and requests another run.
    Snoozed {
        /// How long to wait.
        delay: Duration,
    },
    /// The worker shuts down and releases the job.
    Released,
    /// The worker's lease expired.
    Lost,
}

/// The handler's decision about a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No retry.
    Permanent,
    /// After the backoff of the definition.
    ByPolicy,
    /// After this time.
    After(Duration),
}

/// The decision, and the counters after the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// How the attempt ended.
    pub attempt_outcome: AttemptOutcome,
    /// The next state of the job.
    pub next: Next,
    /// Why, if it is not obvious.
    pub reason: Option<EndReason>,
    /// Failures counted so far.
    pub failures: i16,
    /// Lost leases counted so far.
    pub lost: i16,
    /// Snoozes so far.
    pub snoozes: i32,
}

/// The next state of a running job. The delay is added to the time of the database at the write.
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

/// Why a job did not succeed. The names are stored and shown, so they do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its attempts are exhausted.
    AttemptsExhausted,
    /// It lost its worker too often.
    Poison,
    /// Its snoozes are exhausted.
    SnoozeBudget,
    /// Its next start would be at or after its deadline.
    DeadlinePassed,
    /// The handler reported a permanent failure.
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
            Self::AttemptsExhausted => "attempts_exhausted",
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
            return budget.counted(AttemptOutcome::Failed, Next::Failed, Some(EndReason::Permanent));
        }
        Retry::ByPolicy => budget.backoff(policy, random),
        Retry::After(delay) => delay,
    };
    let (next, reason) = budget.retry(delay);
    budget.counted(AttemptOutcome::Failed, next, reason)
}

fn timed_out(budget: &Budget, policy: &RetryPolicy, random: f64) -> Settlement {
    let (next, reason) = match policy.on_timeout {
        OnTimeout::Fail => (Next::Failed, Some(EndReason::Timeout)),
        OnTimeout::Retry => budget.retry(budget.backoff(policy, random)),
    };
    budget.counted(AttemptOutcome::Timeout, next, reason)
}

fn lost(budget: &Budget, policy: &RetryPolicy, random: f64) -> Settlement {
    let lost = budget.lost.saturating_add(1);
    let (next, reason) = if lost >= budget.max_lost {
        (Next::DeadLetter, Some(EndReason::Poison))
    } else {
        match policy.on_lost {
            // Running out of attempts is the more precise reason; only a job that would have been retried fails because
            // it was lost.
            OnLost::Fail if !budget.is_last_failure() => (Next::Failed, Some(EndReason::Lost)),
            OnLost::Fail | OnLost::Retry => budget.retry(RECOVERY_SPREAD.mul_f64(unit(random))),
        }
    };
    Settlement { lost, ..budget.counted(AttemptOutcome::Lost, next, reason) }
}

fn snoozed(budget: &Budget, delay: Duration) -> Settlement {
    if budget.snoozes >= budget.max_snoozes {
        return budget.uncounted(AttemptOutcome::Snoozed, Next::Failed, Some(EndReason::SnoozeBudget));
    }
    let (next, reason) = match budget.scheduled(delay) {
        Some(next) => (next, None),
        None => (Next::Failed, Some(EndReason::DeadlinePassed)),
    };
    Settlement { snoozes: budget.snoozes + 1, ..budget.uncounted(AttemptOutcome::Snoozed, next, reason) }
}

impl Budget {
    /// Another attempt after `delay`, unless this failure was the last one allowed or the deadline comes first.
    fn retry(&self, delay: Duration) -> (Next, Option<EndReason>) {
        if self.is_last_failure() {
            return (Next::DeadLetter, Some(EndReason::AttemptsExhausted));
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
        let after = delay.min(MAX_RETRY_DELAY);
        let in_time = self.remaining.is_none_or(|remaining| after < remaining);
        in_time.then_some(Next::Scheduled { after })
    }

    fn backoff(&self, policy: &RetryPolicy, random: f64) -> Duration {
        policy.backoff.delay(u32::from(self.failures.max(0).unsigned_abs()), random)
    }

    fn counted(&self, attempt_outcome: AttemptOutcome, next: Next, reason: Option<EndReason>) -> Settlement {
        let failures = self.failures.saturating_add(1);
        Settlement { failures, ..self.uncounted(attempt_outcome, next, reason) }
    }

    fn uncounted(
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
