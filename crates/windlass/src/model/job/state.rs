//! The states of a job, and the table of the transitions between them.
//!
//! Defines the names and numbers under which states are stored. Code that changes the state of a job uses a transition
//! in [`TRANSITIONS`]; all others are impossible.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state of a job. The last four are terminal: only an operator's retry leaves them.
///
/// ```
/// use windlass::job::State;
///
/// assert_eq!("dead_letter".parse(), Ok(State::DeadLetter));
/// assert_eq!(State::Queued.as_str(), "queued");
/// let ends: Vec<State> = State::ALL.into_iter().filter(|state| state.is_terminal()).collect();
/// assert_eq!(ends, [State::Succeeded, State::Failed, State::DeadLetter, State::Canceled]);
/// // Tables store the code.
/// assert_eq!(State::from_code(State::Queued.code()), Some(State::Queued));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
// Exhaustive: an application that handles every state must be changed for a new one, and the compiler shows where.
pub enum State {
    /// Due later: a delay, or the backoff before a retry.
    Scheduled,
    /// Waiting for other jobs to end.
    Blocked,
    /// Ready to run; waiting for a worker.
    Queued,
    /// Claimed by a worker that holds a lease.
    Running,
    /// Ended with success.
    Succeeded,
    /// Ended permanently: the handler reported a permanent error, the payload is invalid, or the job expired.
    Failed,
    /// Out of attempts, or lost its worker too often.
    DeadLetter,
    /// Ended on request.
    Canceled,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Blocked,
        Self::Queued,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::DeadLetter,
        Self::Canceled,
    ];

    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Blocked => "blocked",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::DeadLetter => "dead_letter",
            Self::Canceled => "canceled",
        }
    }

    /// Returns whether the job has ended.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::DeadLetter | Self::Canceled => true,
            Self::Scheduled | Self::Blocked | Self::Queued | Self::Running => false,
        }
    }

    /// The stored number. History keeps these forever, so a number is never reused.
    pub const fn code(self) -> i16 {
        match self {
            Self::Succeeded => 1,
            Self::Failed => 2,
            Self::DeadLetter => 3,
            Self::Canceled => 4,
            Self::Queued => 5,
            Self::Running => 6,
            Self::Scheduled => 7,
            Self::Blocked => 8,
        }
    }

    /// Returns the state with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(name: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == name).ok_or(UnknownState)
    }
}

/// The caller's text is not repeated, because it can have any length and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown state: expected scheduled, blocked, queued, running, succeeded, failed, dead_letter or canceled"
)]
/// ```
/// use windlass::job::{State, UnknownState};
///
/// assert_eq!("done".parse::<State>(), Err(UnknownState));
/// ```
pub struct UnknownState;

/// How one attempt ended. An attempt has exactly one outcome.
///
/// ```
/// use windlass::job::AttemptOutcome;
///
/// assert_eq!(AttemptOutcome::Timeout.as_str(), "timeout");
/// let lost = AttemptOutcome::Lost;
/// assert_eq!(AttemptOutcome::from_code(lost.code()), Some(lost));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It ran longer than its timeout.
    Timeout,
    /// It was canceled.
    Canceled,
    /// Its worker missed its heartbeats, and the reaper ended the attempt.
    Lost,
    /// The handler requested to run again later.
    Snoozed,
    /// The worker released it at shutdown.
    Released,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Failed,
        Self::Timeout,
        Self::Canceled,
        Self::Lost,
        Self::Snoozed,
        Self::Released,
    ];

    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::Lost => "lost",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
        }
    }

    /// The stored number; never reused.
    pub const fn code(self) -> i16 {
        match self {
            Self::Succeeded => 1,
            Self::Failed => 2,
            Self::Timeout => 3,
            Self::Canceled => 4,
            Self::Lost => 5,
            Self::Snoozed => 6,
            Self::Released => 7,
        }
    }

    /// Returns the outcome with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }
}

impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What changes the state of a job.
///
/// ```no_run
/// # async fn example(worker: &windlass::Worker) -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::job::MovedBy;
///
/// let transition = worker.subscribe().recv().await?;
/// if transition.by == MovedBy::Claim {
///     println!("{} started", transition.job_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MovedBy {
    /// The enqueue.
    Enqueue,
    /// The promoter, at the due time.
    Promoter,
    /// The end of a job that it depends on.
    Dependency,
    /// A claim.
    Claim,
    /// The worker that ran it.
    Worker,
    /// The reaper, after an expired lease.
    Reaper,
    /// A cancel.
    Cancel,
    /// The deadline.
    Expiry,
    /// An operator's retry.
    Operator,
}

/// One row of the table. `from` is `None` for the creation of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Move {
    /// The state before; none for a new job.
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// What moves the job.
    pub by: MovedBy,
}

/// All possible transitions of a job.
pub const TRANSITIONS: &[Move] = &[
    made(State::Scheduled),
    made(State::Queued),
    made(State::Blocked),
    row(State::Scheduled, State::Queued, MovedBy::Promoter),
    row(State::Blocked, State::Queued, MovedBy::Dependency),
    // Its start time is in the future.
    row(State::Blocked, State::Scheduled, MovedBy::Dependency),
    row(State::Blocked, State::Canceled, MovedBy::Dependency),
    row(State::Queued, State::Running, MovedBy::Claim),
    row(State::Running, State::Succeeded, MovedBy::Worker),
    row(State::Running, State::Failed, MovedBy::Worker),
    row(State::Running, State::Scheduled, MovedBy::Worker),
    row(State::Running, State::DeadLetter, MovedBy::Worker),
    row(State::Running, State::Queued, MovedBy::Worker),
    row(State::Running, State::Canceled, MovedBy::Worker),
    row(State::Running, State::Scheduled, MovedBy::Reaper),
    row(State::Running, State::DeadLetter, MovedBy::Reaper),
    row(State::Running, State::Canceled, MovedBy::Reaper),
    // Only if the definition specifies that a lost attempt is not repeated.
    row(State::Running, State::Failed, MovedBy::Reaper),
    row(State::Scheduled, State::Canceled, MovedBy::Cancel),
    row(State::Queued, State::Canceled, MovedBy::Cancel),
    row(State::Blocked, State::Canceled, MovedBy::Cancel),
    row(State::Scheduled, State::Failed, MovedBy::Expiry),
    row(State::Queued, State::Failed, MovedBy::Expiry),
    row(State::Blocked, State::Failed, MovedBy::Expiry),
    row(State::Succeeded, State::Queued, MovedBy::Operator),
    row(State::Failed, State::Queued, MovedBy::Operator),
    row(State::DeadLetter, State::Queued, MovedBy::Operator),
    row(State::Canceled, State::Queued, MovedBy::Operator),
    // Later jobs with its ordering key may have run: it goes behind those that are still waiting.
    row(State::Succeeded, State::Blocked, MovedBy::Operator),
    row(State::Failed, State::Blocked, MovedBy::Operator),
    row(State::DeadLetter, State::Blocked, MovedBy::Operator),
    row(State::Canceled, State::Blocked, MovedBy::Operator),
];

/// Whether this transition is possible.
pub fn allowed(from: Option<State>, to: State) -> bool {
    TRANSITIONS.iter().any(|transition| transition.from == from && transition.to == to)
}

const fn made(to: State) -> Move {
    Move { from: None, to, by: MovedBy::Enqueue }
}

const fn row(from: State, to: State, by: MovedBy) -> Move {
    Move { from: Some(from), to, by }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_state_round_trips_as_name_code_and_json() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
            assert_eq!(State::from_code(state.code()), Some(state));
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{state}\""));
            assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        }
        assert_eq!(State::from_code(0), None);
        assert_eq!("Queued".parse::<State>(), Err(UnknownState));
    }

    #[test]
    fn the_error_for_an_unknown_state_lists_every_state() {
        let message = UnknownState.to_string();
        assert!(State::ALL.iter().all(|state| message.contains(state.as_str())));
    }

    #[test]
    fn every_attempt_outcome_round_trips_as_code_and_json() {
        for outcome in AttemptOutcome::ALL {
            assert_eq!(AttemptOutcome::from_code(outcome.code()), Some(outcome));
            let json = serde_json::to_string(&outcome).unwrap();
            assert_eq!(json, format!("\"{outcome}\""));
        }
        assert_eq!(AttemptOutcome::from_code(8), None);
    }

    #[test]
    fn codes_are_unique() {
        let states: HashSet<i16> = State::ALL.map(State::code).into();
        assert_eq!(states.len(), State::ALL.len());
        let outcomes: HashSet<i16> = AttemptOutcome::ALL.map(AttemptOutcome::code).into();
        assert_eq!(outcomes.len(), AttemptOutcome::ALL.len());
    }

    #[test]
    fn the_table_has_no_row_twice() {
        let rows: HashSet<&Move> = TRANSITIONS.iter().collect();
        assert_eq!(rows.len(), TRANSITIONS.len());
    }

    #[test]
    fn only_an_operator_leaves_a_terminal_state_and_only_to_wait() {
        for transition in TRANSITIONS {
            let leaves_terminal = transition.from.is_some_and(State::is_terminal);
            assert_eq!(leaves_terminal, transition.by == MovedBy::Operator);
            if leaves_terminal {
                assert!(matches!(transition.to, State::Queued | State::Blocked));
            }
        }
        assert!(State::ALL.iter().all(|&state| !state.is_terminal() || allowed(Some(state), State::Queued)));
    }

    #[test]
    fn a_job_starts_only_by_a_claim_from_the_queue() {
        let starts: Vec<&Move> =
            TRANSITIONS.iter().filter(|transition| transition.to == State::Running).collect();
        assert_eq!(starts, [&row(State::Queued, State::Running, MovedBy::Claim)]);
    }

    #[test]
    fn every_state_can_be_reached_and_every_job_can_end() {
        for state in State::ALL {
            assert!(TRANSITIONS.iter().any(|row| row.to == state), "{state}");
            assert!(state.is_terminal() || allowed(Some(state), State::Canceled), "{state}");
        }
        assert!(!allowed(None, State::Running));
        assert!(!allowed(Some(State::Scheduled), State::Running));
        assert!(!allowed(Some(State::Scheduled), State::Blocked));
    }
}
