//! Proves the invariants of `docs/reliability.md` from the ledger and the database. Everything here is a pure function of the
//! [`Evidence`], except [`read`], which collects it.

mod counts;
mod evidence;
mod index;
mod jobs;
pub(crate) mod read;
mod recovery;
mod runs;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use super::ledger::Fact;

pub(crate) use evidence::Evidence;
use index::Index;
pub(crate) use recovery::Recovery;
pub(crate) use trace::trace;

/// What is checked: the number of the invariant, or a word for a promise without a number, and the promise.
pub(crate) const CHECKS: [(&str, &str); 28] = [
    ("1", "no job starts before the jobs that it depends on have ended"),
    ("2", "a job is in exactly one place, with one final status"),
    ("3", "attempts are numbered without a gap, and every start is one of them"),
    ("4", "nothing runs after the final status, except by an operator's retry"),
    ("9", "an acknowledged job exists, or its deletion was requested"),
    ("10", "no job exists without a committed enqueue"),
    ("11", "when faults stop, every job ends"),
    ("13", "counted attempts do not exceed max_attempts"),
    ("14", "lost attempts do not exceed max_lost"),
    ("15", "every attempt starts once and ends once"),
    ("16", "a handler's own writes are visible if and only if its attempt succeeded"),
    ("17", "the jobs that follow a job exist if and only if it succeeded"),
    ("18", "two runs of one job do not overlap"),
    ("20", "no process of a job is left"),
    ("21", "one idempotency key, one job"),
    ("22", "at most one active job per dedupe key, and one ever if it is held forever"),
    ("23", "within a window, one job per key is accepted"),
    ("25", "limits on running jobs are never exceeded"),
    ("27", "a tenant never has more unfinished jobs than its quota"),
    ("28", "a worker never runs more jobs than its concurrency"),
    ("31", "jobs with one ordering key run in order, one at a time"),
    ("32", "nothing starts before it is due"),
    ("35", "every due instant of a schedule is decided once, with one job"),
    ("40", "a job canceled before it starts never starts, and one canceled while it runs ends as canceled"),
    ("48", "counters equal the rows"),
    ("49", "the audit trail is complete and its chain is intact"),
    ("events", "an acknowledged event starts exactly one job, and one that was rolled back none"),
    ("left", "nothing is left behind: keys, leases, cancel requests, dependencies, deadlines, tenants"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// A key of [`CHECKS`].
    pub(crate) check: &'static str,
    /// The job, if it is about one.
    pub(crate) job: Option<Uuid>,
    pub(crate) text: String,
}

impl Violation {
    fn of(check: &'static str, job: Uuid, text: impl Into<String>) -> Self {
        Self { check, job: Some(job), text: text.into() }
    }

    fn general(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, job: None, text: text.into() }
    }
}

/// Everything that the evidence contradicts.
pub(crate) fn check(evidence: &Evidence) -> Vec<Violation> {
    let index = Index::new(evidence);
    let mut found = Vec::new();
    jobs::check(evidence, &index, &mut found);
    runs::check(evidence, &index, &mut found);
    counts::check(evidence, &index, &mut found);
    found
}

/// How long it took until a job of a worker that was killed or frozen started again.
pub(crate) fn recoveries(evidence: &Evidence) -> Recovery {
    recovery::measure(&Index::new(evidence))
}

/// Jobs whose enqueue was acknowledged, and those that exist without an acknowledgment.
pub(crate) fn enqueued(evidence: &Evidence) -> u64 {
    let acked = evidence.entries.iter().filter_map(|entry| match entry.fact {
        Fact::Acked { job, is_duplicate: false, .. } => Some(job),
        _ => None,
    });
    let all: HashSet<Uuid> = evidence.jobs.iter().map(|job| job.id).chain(acked).collect();
    all.len() as u64
}

/// The number of violations of every check, including zeros.
pub(crate) fn count(violations: &[Violation]) -> BTreeMap<&'static str, u64> {
    let mut counts: BTreeMap<&'static str, u64> = CHECKS.iter().map(|(check, _)| (*check, 0)).collect();
    for violation in violations {
        *counts.entry(violation.check).or_default() += 1;
    }
    counts
}
