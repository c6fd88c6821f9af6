//! What the checker reads: the ledger, and the rows of the database in one snapshot, as plain values.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use uuid::Uuid;
use windlass::job::{AttemptOutcome, State};

use crate::soak::ledger::Entry;

#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) entries: Vec<Entry>,
    pub(crate) jobs: Vec<JobRow>,
    pub(crate) attempts: Vec<AttemptRow>,
    /// Jobs that have not ended, with their place.
    pub(crate) unfinished: Vec<(Uuid, &'static str)>,
    /// Rows that handlers wrote in the transactions that completed their attempts.
    pub(crate) effects: HashSet<(Uuid, i32)>,
    /// Rows that were written in the transactions of enqueues and events from SQL, by their numbers.
    pub(crate) sent: HashSet<u64>,
    pub(crate) emitted: HashSet<u64>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) fires: Vec<FireRow>,
    /// The instants that each schedule must have decided.
    pub(crate) due: Vec<(Uuid, Timestamp)>,
    /// The name of each counter, its value, and the number of rows.
    pub(crate) counters: Vec<(String, i64, i64)>,
    /// Rows that should have been deleted with the end of their jobs.
    pub(crate) leftovers: Vec<String>,
    pub(crate) audit_faults: Vec<String>,
    /// How many rows of the audit trail name the action and the job.
    pub(crate) audited: HashMap<(String, Uuid), u64>,
    /// What snapshots during the run contradicted: the check, and what was seen.
    pub(crate) snapshots: Vec<(&'static str, String)>,
    /// Processes of jobs that are left after their workers ended.
    pub(crate) orphans: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct JobRow {
    pub(crate) id: Uuid,
    pub(crate) tenant: Uuid,
    pub(crate) definition: String,
    /// The number in its payload.
    pub(crate) n: u64,
    /// How many jobs follow its success, by its payload.
    pub(crate) children: u64,
    pub(crate) parent: Option<Uuid>,
    pub(crate) max_attempts: u32,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) scheduled_for: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttemptRow {
    pub(crate) job: Uuid,
    /// 0 if the job ended without an attempt.
    pub(crate) attempt: i32,
    pub(crate) outcome: Option<AttemptOutcome>,
    /// The final status of the job, if this ended it.
    pub(crate) status: Option<State>,
    pub(crate) started_at: Option<Timestamp>,
}

/// One event, with what it started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventRow {
    /// The number in its payload.
    pub(crate) n: u64,
    pub(crate) fired: Vec<Uuid>,
    /// Whether a dispatcher has not decided it.
    pub(crate) is_pending: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FireRow {
    pub(crate) trigger: Uuid,
    pub(crate) due: Timestamp,
    pub(crate) job: Option<Uuid>,
}
