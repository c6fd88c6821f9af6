//! What was found, before anybody says what it means.

use crate::model::record::Trouble;

/// Everything the doctor asked for.
#[derive(Debug, Default)]
pub(crate) struct DatabaseFacts {
    pub(crate) server: Server,
    /// The database's clock minus this machine's.
    pub(crate) clock_off_ms: i64,
    /// The address for statements leads to a pooler.
    pub(crate) is_pooled: bool,
    /// A session on the direct address hears notifications.
    pub(crate) is_heard: bool,
    pub(crate) holders: Vec<Holder>,
    pub(crate) expected: Vec<Installed>,
    pub(crate) installed: Vec<Installed>,
    pub(crate) altered_functions: Vec<String>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) tables: Vec<TableFacts>,
    pub(crate) workers: Vec<WorkerFacts>,
    pub(crate) stuck: Vec<Stuck>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) listeners: i64,
}

impl DatabaseFacts {
    /// Every migration of this release is there; it may have more.
    pub(crate) fn is_our_schema(&self) -> bool {
        let is_there = |one: &Installed| self.installed.iter().any(|other| other.version == one.version);
        self.expected.iter().all(is_there)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) version: i32,
    pub(crate) version_text: String,
    pub(crate) is_replica: bool,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) connections: i64,
    pub(crate) most_connections: i64,
    /// From 0 to 1; full means that NOTIFY, and with it every commit that rings, fails.
    pub(crate) notification_queue: f64,
    pub(crate) transaction_age: i64,
    pub(crate) has_schema: bool,
    /// The login is shown nothing of what other logins' sessions do.
    pub(crate) is_blind: bool,
    pub(crate) clock_ms: i64,
}

/// Something that keeps dead rows from being cleaned.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) kind: String,
    pub(crate) who: String,
    pub(crate) age_seconds: Option<i64>,
    pub(crate) doing: String,
}

/// A migration, or with version 0 the functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) checksum: String,
}

#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct TableFacts {
    pub(crate) name: String,
    pub(crate) live_rows: i64,
    pub(crate) dead_rows: i64,
    pub(crate) bytes: i64,
    pub(crate) vacuumed_seconds: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct WorkerFacts {
    pub(crate) worker_id: String,
    pub(crate) silent_seconds: i64,
    pub(crate) running_count: i32,
    pub(crate) is_alive: bool,
}

#[derive(Debug)]
pub(crate) struct Stuck {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) jobs: i64,
    pub(crate) age_seconds: i64,
}
