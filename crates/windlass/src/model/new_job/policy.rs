//! The source of a job, and what happens to it if a dependency does not succeed.

/// The source of a job.
///
/// ```
/// use windlass::job::Source;
///
/// assert_eq!(Source::default().as_str(), "manual");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A program or a person enqueued it.
    #[default]
    Manual,
    /// The trigger of an event enqueued it.
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

/// What happens to a waiting job if a job that it waits for ends without success.
///
/// ```
/// use windlass::NewJob;
/// use windlass::job::IfUnmet;
///
/// let build = uuid::Uuid::now_v7();
/// let cleanup = NewJob::new("cleanup").depends_on(build).if_unmet(IfUnmet::Run);
/// # let _ = cleanup;
/// assert_eq!(IfUnmet::Run.as_str(), "run");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfUnmet {
    /// It is canceled. The default for `depends_on`.
    Cancel,
    /// It runs anyway.
    Run,
    /// It keeps waiting, until an operator retries the other job. The default for `ordering_key`.
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
