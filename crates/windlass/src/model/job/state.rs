//! The states of a job, and the one table that says how it may move between them.
//!
//! Owns the words and the small integers under which states are stored. Code that wants to move a job asks for a
//! transition that stands in [`TRANSITIONS`]; a move that is not in the table does not exist.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job is in its life. The last four are terminal: only an operator's retry leads out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Due later: a delay, or the backoff before a retry.
    Scheduled,
    /// Waits for other jobs.
    Blocked,
    /// Ready to run; waiting for a worker.
    Queued,
    /// Claimed by a worker that holds a lease.
    Running,
    /// Ended with success.
    Succeeded,
    /// Permanent: the handler said so, the payload is invalid, or the job expired.
    Failed,
    /// The retry budget or the crash budget is spent.
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

/// The caller's text is not repeated: it may be of any length and hold anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown state: expected scheduled, blocked, queued, running, succeeded, failed, dead_letter or canceled"
)]
pub struct UnknownState;

/// How one attempt ended. An attempt gets exactly one, once.
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
    /// Its worker fell silent, and the reaper closed it.
    Lost,
    /// The handler asked to be run again later.
    Snoozed,
    /// The worker gave it back at shutdown.
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

/// Who moves a job.
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

/// One row of the table. `from` is `None` where the job is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Move {
    /// The state before; none for a new job.
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// What moves the job.
    pub by: MovedBy,
}

/// Every move a job can make, and nothing else.
pub const TRANSITIONS: &[Move] = &[
    made(State::Scheduled),
    made(State::Queued),
    made(State::Blocked),
    row(State::Scheduled, State::Queued, MovedBy::Promoter),
    row(State::Blocked, State::Queued, MovedBy::Dependency),
    // Its start time is still ahead.
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
    // Only where the definition says that a lost attempt must not be repeated.
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
    // Others with its ordering key have passed it: it goes to the end of their line.
    row(State::Succeeded, State::Blocked, MovedBy::Operator),
    row(State::Failed, State::Blocked, MovedBy::Operator),
    row(State::DeadLetter, State::Blocked, MovedBy::Operator),
    row(State::Canceled, State::Blocked, MovedBy::Operator),
];

/// Whether anyone may move a job so.
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
    fn every_state_survives_its_name_its_code_and_json() {
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
    fn the_refusal_of_an_unknown_state_names_every_state() {
        let message = UnknownState.to_string();
        assert!(State::ALL.iter().all(|state| message.contains(state.as_str())));
    }

    #[test]
    fn every_attempt_outcome_survives_its_code_and_json() {
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
    fn only_an_operator_leads_out_of_a_terminal_state_and_only_into_a_line() {
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
