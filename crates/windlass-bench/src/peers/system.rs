//! The compared systems, and what is measured of each.

use serde::Serialize;

/// PGMQ has two ways to end a message: it deletes it, or moves it into an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum System {
    Windlass,
    PgmqDelete,
    PgmqArchive,
    GraphileWorker,
    PgBoss,
}

impl System {
    pub(crate) const ALL: [Self; 5] =
        [Self::Windlass, Self::PgmqDelete, Self::PgmqArchive, Self::GraphileWorker, Self::PgBoss];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::PgmqDelete => "pgmq-delete",
            Self::PgmqArchive => "pgmq-archive",
            Self::GraphileWorker => "graphile-worker",
            Self::PgBoss => "pg-boss",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.as_str() == name)
    }

    /// The two modes of PGMQ differ only in how a message ends.
    pub(super) const fn has(self, measure: Measure) -> bool {
        match self {
            Self::PgmqArchive => matches!(measure, Measure::Drain | Measure::Steady),
            Self::Windlass | Self::PgmqDelete | Self::GraphileWorker | Self::PgBoss => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measure {
    /// Jobs that are enqueued 1000 per transaction over two connections.
    Bulk,
    /// The same jobs, run by one worker process until none is left.
    Drain,
    /// One job per transaction, 32 callers with a connection each.
    Single,
    /// Two producers and one worker in one process.
    Steady,
    /// From the acknowledgement of an enqueue to the start of the job, on an idle queue.
    Latency,
}

impl Measure {
    pub(crate) const ALL: [Self; 5] = [Self::Bulk, Self::Drain, Self::Single, Self::Steady, Self::Latency];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Drain => "drain",
            Self::Single => "single",
            Self::Steady => "steady",
            Self::Latency => "latency",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.as_str() == name)
    }

    pub(super) const fn callers(self) -> usize {
        match self {
            Self::Single => 32,
            Self::Bulk | Self::Drain | Self::Steady | Self::Latency => 2,
        }
    }
}
