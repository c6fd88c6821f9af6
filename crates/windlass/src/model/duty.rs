//! What the keeper does.

/// A thing the keeper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duty {
    /// Queues scheduled jobs that are due.
    Promote,
    /// Fires schedules that are due.
    Schedule,
    /// Starts the triggers of emitted events.
    Dispatch,
    /// Takes jobs from workers whose lease expired.
    Reap,
    /// Ends jobs that are past their deadline.
    Expire,
    /// Releases jobs whose dependencies have ended.
    Unblock,
    /// Adds up the counters.
    Fold,
    /// Deletes what no retention rule keeps.
    Prune,
    /// Chains new rows of the audit trail.
    Seal,
    /// Deletes the data of deleted tenants.
    PurgeTenants,
    /// Creates partitions ahead of time and drops empty ones.
    Partition,
    /// Adds up what happened, for the charts.
    Sample,
}

impl Duty {
    /// Every duty.
    pub const ALL: [Self; 12] = [
        Self::Promote,
        Self::Schedule,
        Self::Dispatch,
        Self::Reap,
        Self::Expire,
        Self::Unblock,
        Self::Fold,
        Self::Prune,
        Self::Seal,
        Self::PurgeTenants,
        Self::Partition,
        Self::Sample,
    ];

    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Schedule => "schedule",
            Self::Dispatch => "dispatch",
            Self::Reap => "reap",
            Self::Expire => "expire",
            Self::Unblock => "unblock",
            Self::Fold => "fold",
            Self::Prune => "prune",
            Self::Seal => "seal",
            Self::PurgeTenants => "purge_tenants",
            Self::Partition => "partition",
            Self::Sample => "sample",
        }
    }
}
