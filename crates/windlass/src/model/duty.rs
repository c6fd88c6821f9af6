//! What the keeper does.

/// A thing the keeper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    Promote,
    Schedule,
    Dispatch,
    Reap,
    Expire,
    Unblock,
    Fold,
    Prune,
    Seal,
    PurgeTenants,
    Partition,
    Sample,
}

impl Duty {
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
