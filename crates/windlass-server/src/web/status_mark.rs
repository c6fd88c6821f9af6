//! How a status is shown: a word, its own shape and a color, so that it can be recognized without color.

use windlass::job::State;

/// The state of a job, the outcome of an attempt, or the state of another object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusMark {
    /// The class that sets the color: `is-…`.
    pub(crate) role: &'static str,
    /// The name of the symbol in the sprite: `s-…`.
    pub(crate) shape: &'static str,
    pub(crate) word: &'static str,
}

impl StatusMark {
    pub(crate) const fn new(role: &'static str, shape: &'static str, word: &'static str) -> Self {
        Self { role, shape, word }
    }

    /// `is_retry`: the scheduled job waits for a retry, not for its first attempt.
    pub(crate) const fn of(state: State, is_retry: bool) -> Self {
        let (role, shape, word) = match state {
            State::Queued => ("queued", "ring", "Queued"),
            State::Blocked => ("blocked", "chain", "Blocked"),
            State::Running => ("running", "turn", "Running"),
            State::Succeeded => ("succeeded", "tick", "Succeeded"),
            State::Scheduled if is_retry => ("retrying", "back", "Retrying"),
            State::Scheduled => ("queued", "clock", "Scheduled"),
            State::Failed => ("failed", "cross", "Failed"),
            State::DeadLetter => ("dead_letter", "square", "Dead letter"),
            State::Canceled => ("canceled", "dash", "Canceled"),
        };
        Self { role, shape, word }
    }

    /// The outcome of an attempt by its name; an unknown one is shown as waiting.
    pub(crate) fn of_attempt(outcome: &str) -> Self {
        let (role, shape, word) = match outcome {
            "running" => ("running", "turn", "Running"),
            "succeeded" => ("succeeded", "tick", "Succeeded"),
            "failed" => ("failed", "cross", "Failed"),
            "timeout" => ("timeout", "clock", "Timed out"),
            "canceled" => ("canceled", "dash", "Canceled"),
            "lost" => ("lost", "back", "Lease lost"),
            "snoozed" => ("snoozed", "clock", "Snoozed"),
            _ => ("released", "back", "Released"),
        };
        Self { role, shape, word }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use windlass::job::State;

    use super::StatusMark;

    #[test]
    fn no_two_states_share_a_shape() {
        let mut shapes: BTreeSet<_> =
            State::ALL.iter().map(|state| StatusMark::of(*state, false).shape).collect();
        shapes.insert(StatusMark::of(State::Scheduled, true).shape);
        assert_eq!(shapes.len(), State::ALL.len() + 1);
    }
}
