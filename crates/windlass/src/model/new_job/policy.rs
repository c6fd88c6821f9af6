//! Where a job comes from, and what happens to it if a job that it waits for does not succeed.

/// Where a job comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A program or a person enqueued it.
    #[default]
    Manual,
    /// An event's trigger enqueued it.
    Event,
    /// A schedule enqueued it.
    Schedule,
    /// Windlass enqueued it.
    System,
}

impl Source {
    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Event => "event",
            Self::Schedule => "schedule",
            Self::System => "system",
        }
    }

    /// The stored number; never reused.
    pub(crate) const fn code(self) -> i16 {
        match self {
            Self::Manual => 1,
            Self::Event => 2,
            Self::Schedule => 3,
            Self::System => 4,
        }
    }
}

/// What happens to a waiting job when a job that it waits for ends without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnmet {
    /// It is canceled. The default for `depends_on`.
    Cancel,
    /// It runs all the same.
    Run,
    /// It goes on waiting, for an operator's retry. The default for `ordering_key`.
    Wait,
}

impl IfUnmet {
    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Run => "run",
            Self::Wait => "wait",
        }
    }
}
