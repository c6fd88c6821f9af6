//! The facts that the doctor collected, before they are judged.

use super::catalog::Difference;
use crate::model::record::Problem;

/// All collected facts.
#[derive(Debug, Default)]
pub(crate) struct DatabaseFacts {
    pub(crate) server: Server,
    /// The time of the database minus that of this machine.
    pub(crate) clock_off_ms: i64,
    /// The URL for statements is a pooler.
    pub(crate) is_pooled: bool,
    /// A session on the direct URL receives notifications.
    pub(crate) notification_arrives: bool,
    pub(crate) holders: Vec<Holder>,
    pub(crate) expected: Vec<Installed>,
    pub(crate) installed: Vec<Installed>,
    /// What differs from a fresh installation of this release.
    pub(crate) differences: Vec<Difference>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) contents: Option<SchemaContents>,
    /// Objects of others that depend on ours; the first ones.
    pub(crate) dependents: Vec<String>,
    /// What others left that stops a backup or a restore, with advice.
    pub(crate) stops_backup: Vec<(String, String)>,
    pub(crate) tables: Vec<TableFacts>,
    pub(crate) workers: Vec<WorkerFacts>,
    pub(crate) stuck: Vec<Stuck>,
    pub(crate) problems: Vec<Problem>,
    /// The session whose lock kept the tables from being read. What follows is then unknown.
    pub(crate) locked_by: Option<String>,
    pub(crate) listeners: i64,
    /// In the busiest minute of the last day.
    pub(crate) jobs_per_second: f64,
}

impl DatabaseFacts {
    /// Whether every migration of this release is installed; there may be more.
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
    /// From 0 to 1; if it is full, NOTIFY fails, and with it every commit that notifies.
    pub(crate) notification_queue: f64,
    pub(crate) transaction_age: i64,
    pub(crate) has_schema: bool,
    /// The login cannot see the activity of other logins' sessions.
    pub(crate) is_blind: bool,
    pub(crate) clock_ms: i64,
}

/// Something that prevents the removal of dead rows.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) kind: String,
    pub(crate) who: String,
    pub(crate) age_seconds: Option<i64>,
    pub(crate) doing: String,
}

/// A migration, or the functions if the version is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) checksum: String,
}

/// What is in the schema `windlass`, by the catalog alone. Objects are written as the statements that drop them.
#[derive(Debug, Default)]
pub(crate) struct SchemaContents {
    pub(crate) owner: String,
    /// It belongs to `windlass_owner`.
    pub(crate) is_ours: bool,
    /// It belongs to the login that asks.
    pub(crate) is_callers: bool,
    /// The schema and `windlass.migration` belong to `windlass_owner`, a superuser or the login that asks: it was installed by us, or the
    /// login restored it.
    pub(crate) is_installed: bool,
    /// Objects that do not belong to `windlass_owner`; the first twenty.
    pub(crate) foreign_objects: Vec<String>,
    /// All objects but the tables of the first step; the first twenty.
    pub(crate) objects: Vec<String>,
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
