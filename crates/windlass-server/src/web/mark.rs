//! How a status looks: a word, a shape of its own and a colour role, so that it reads in grey too.

use windlass::job::State;

/// A state of a job, the outcome of an attempt, or the state of something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The class that sets the colour role: `is-…`.
    pub(crate) role: &'static str,
    /// The symbol's name in the sprite: `s-…`.
    pub(crate) shape: &'static str,
    pub(crate) word: &'static str,
}

impl Mark {
    pub(crate) const fn new(role: &'static str, shape: &'static str, word: &'static str) -> Self {
        Self { role, shape, word }
    }

    /// `is_retry`: a scheduled job that waits for its next attempt, not for its first.
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

    /// The outcome of an attempt by its word; an unknown word looks like a wait.
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

    use super::Mark;

    #[test]
    fn no_two_states_share_a_shape() {
        let mut shapes: BTreeSet<_> = State::ALL.iter().map(|state| Mark::of(*state, false).shape).collect();
        shapes.insert(Mark::of(State::Scheduled, true).shape);
        assert_eq!(shapes.len(), State::ALL.len() + 1);
    }
}
