//! The duties of the keeper.

/// A duty of the keeper.
///
/// ```
/// use windlass::keeper::Duty;
///
/// let names: Vec<&str> = Duty::ALL.iter().map(|duty| duty.as_str()).collect();
/// assert!(names.contains(&"promote"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duty {
    /// Queues scheduled jobs that are due.
    Promote,
    /// Fires schedules that are due.
    Schedule,
    /// Starts the triggers of emitted events.
    Dispatch,
    /// Recovers jobs from workers whose lease has expired.
    Reap,
    /// Ends jobs that are past their deadline.
    Expire,
    /// Unblocks jobs whose dependencies have ended.
    Unblock,
    /// Sums the counters.
    Fold,
    /// Deletes data whose retention has expired.
    Prune,
    /// Replaces large partitions whose jobs are past their retention.
    Retire,
    /// Adds new entries of the audit trail to their hash chain.
    Seal,
    /// Deletes the data of deleted tenants.
    PurgeTenants,
    /// Creates partitions ahead of time and drops empty ones.
    Partition,
    /// Sums the activity, for the charts.
    Sample,
}

impl Duty {
    /// Every duty.
    pub const ALL: [Self; 13] = [
        Self::Promote,
        Self::Schedule,
        Self::Dispatch,
        Self::Reap,
        Self::Expire,
        Self::Unblock,
        Self::Fold,
        Self::Prune,
        Self::Retire,
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
            Self::Retire => "retire",
            Self::Seal => "seal",
            Self::PurgeTenants => "purge_tenants",
            Self::Partition => "partition",
            Self::Sample => "sample",
        }
    }
}
