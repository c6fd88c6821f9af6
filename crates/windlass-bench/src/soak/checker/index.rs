//! The ledger by intent, by job and by run.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use super::evidence::{AttemptRow, Evidence, JobRow};
use crate::soak::ledger::{Fact, Kind};

/// What the ledger says about one enqueue.
#[derive(Debug, Default)]
pub(super) struct IntentFacts {
    pub(super) tenant: Uuid,
    pub(super) definition: String,
    pub(super) way: String,
    pub(super) has_key: bool,
    pub(super) dedupe_key: Option<String>,
    /// The jobs of its acknowledgments, and whether each was a duplicate.
    pub(super) acked: Vec<(Uuid, bool)>,
    /// When it was sent, and when it was acknowledged.
    pub(super) sent_at: u64,
    pub(super) acked_at: u64,
    pub(super) is_refused: bool,
    pub(super) ordering_key: Option<String>,
    pub(super) depends_on: Vec<Uuid>,
}

impl IntentFacts {
    /// The job that this enqueue created, if that was acknowledged.
    pub(super) fn created(&self) -> Option<Uuid> {
        self.acked.iter().find(|(_, is_duplicate)| !is_duplicate).map(|(job, _)| *job)
    }
}

/// From an instant to another one, of a job.
pub(super) type Span = (u64, u64, Uuid);

/// One run of an attempt: from its start to its end, or to the death or the freeze of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) job: Uuid,
    pub(super) attempt: i32,
    pub(super) pid: u32,
    pub(super) kind: Kind,
    pub(super) from: u64,
    /// None if its process was not seen to end.
    pub(super) to: Option<u64>,
    pub(super) end: Option<RunEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEnd {
    Ended { is_success: bool },
    Died,
    Frozen,
}

#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    /// In the order of their numbers, in which each caller sent them.
    pub(super) intents: BTreeMap<u64, IntentFacts>,
    pub(super) jobs: HashMap<Uuid, &'a JobRow>,
    /// The jobs of each intent that exist.
    pub(super) of_intent: HashMap<u64, Vec<&'a JobRow>>,
    pub(super) attempts: HashMap<Uuid, Vec<&'a AttemptRow>>,
    pub(super) runs: HashMap<Uuid, Vec<Run>>,
    pub(super) purge_sent: HashSet<Uuid>,
    pub(super) cancel_sent: HashMap<Uuid, u64>,
    pub(super) retry_sent: HashMap<Uuid, u64>,
    pub(super) retried: HashMap<Uuid, u64>,
    /// The instant of the acknowledgment, and whether the job was running.
    pub(super) canceled: HashMap<Uuid, Vec<(u64, bool)>>,
    pub(super) deleted_tenants: HashSet<Uuid>,
    pub(super) emitted: BTreeMap<u64, EmitState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmitState {
    Unknown,
    Acked,
    Refused,
}

/// The definitions whose jobs are not sent by a caller.
fn is_of_intent(job: &JobRow) -> bool {
    !matches!(
        job.definition.as_str(),
        crate::soak::work::CHILD | crate::soak::work::EVENT | crate::soak::work::TICK
    )
}

impl<'a> Index<'a> {
    pub(super) fn new(evidence: &'a Evidence) -> Self {
        let mut index = Self::default();
        for job in &evidence.jobs {
            index.jobs.insert(job.id, job);
            if is_of_intent(job) {
                index.of_intent.entry(job.n).or_default().push(job);
            }
        }
        for attempt in &evidence.attempts {
            index.attempts.entry(attempt.job).or_default().push(attempt);
        }
        for attempts in index.attempts.values_mut() {
            attempts.sort_by_key(|row| row.attempt);
        }
        // Open runs by their process.
        let mut open: HashMap<u32, Vec<Run>> = HashMap::new();
        for entry in &evidence.entries {
            index.add_run(&mut open, entry.at, &entry.fact);
            index.add_intent(entry.at, &entry.fact);
            index.add_action(entry.at, &entry.fact);
        }
        for run in open.into_values().flatten() {
            index.runs.entry(run.job).or_default().push(run);
        }
        for runs in index.runs.values_mut() {
            runs.sort_by_key(|run| run.from);
        }
        index
    }

    fn add_run(&mut self, open: &mut HashMap<u32, Vec<Run>>, at: u64, fact: &Fact) {
        let mut close = |run: Run, end| {
            // What a frozen process does later is not a part of the run: another one may have taken its place by then.
            let (to, end) = match run.end {
                Some(RunEnd::Frozen) => (run.to, run.end),
                _ => (Some(at), Some(end)),
            };
            self.runs.entry(run.job).or_default().push(Run { to, end, ..run });
        };
        match fact {
            Fact::Started { job, attempt, pid, kind } => {
                let run = Run {
                    job: *job,
                    attempt: *attempt,
                    pid: *pid,
                    kind: *kind,
                    from: at,
                    to: None,
                    end: None,
                };
                open.entry(*pid).or_default().push(run);
            }
            Fact::Ended { job, attempt, pid, is_success } => {
                let runs = open.entry(*pid).or_default();
                let found = runs.iter().position(|run| (run.job, run.attempt) == (*job, *attempt));
                if let Some(found) = found {
                    close(runs.swap_remove(found), RunEnd::Ended { is_success: *is_success });
                }
            }
            Fact::Died { pid, .. } => {
                for run in open.remove(pid).unwrap_or_default() {
                    close(run, RunEnd::Died);
                }
            }
            Fact::Frozen { pid } => {
                for run in open.get_mut(pid).into_iter().flatten().filter(|run| run.end.is_none()) {
                    (run.to, run.end) = (Some(at), Some(RunEnd::Frozen));
                }
            }
            _ => {}
        }
    }

    fn add_intent(&mut self, at: u64, fact: &Fact) {
        match fact {
            Fact::Sent { intent, tenant, definition, way, key, dedupe_key } => {
                let facts = self.intents.entry(*intent).or_default();
                facts.sent_at = at;
                facts.tenant = *tenant;
                facts.definition.clone_from(definition);
                facts.way.clone_from(way);
                facts.has_key = key.is_some();
                facts.dedupe_key.clone_from(dedupe_key);
            }
            Fact::Acked { intent, job, is_duplicate } => {
                let facts = self.intents.entry(*intent).or_default();
                facts.acked_at = at;
                facts.acked.push((*job, *is_duplicate));
            }
            Fact::Refused { intent, .. } => self.intents.entry(*intent).or_default().is_refused = true,
            Fact::Ordered { intent, key } => {
                self.intents.entry(*intent).or_default().ordering_key = Some(key.clone());
            }
            Fact::Depends { intent, on } => {
                self.intents.entry(*intent).or_default().depends_on.clone_from(on);
            }
            _ => {}
        }
    }

    fn add_action(&mut self, at: u64, fact: &Fact) {
        match fact {
            Fact::PurgeSent { jobs } => self.purge_sent.extend(jobs),
            Fact::CancelSent { job } => *self.cancel_sent.entry(*job).or_default() += 1,
            Fact::RetrySent { job } => *self.retry_sent.entry(*job).or_default() += 1,
            Fact::Retried { job } => *self.retried.entry(*job).or_default() += 1,
            Fact::Canceled { job, was_running } => {
                self.canceled.entry(*job).or_default().push((at, *was_running));
            }
            Fact::TenantDeleteSent { tenant } => drop(self.deleted_tenants.insert(*tenant)),
            Fact::Emitted { event, .. } => drop(self.emitted.insert(*event, EmitState::Unknown)),
            Fact::EmitAcked { event } => drop(self.emitted.insert(*event, EmitState::Acked)),
            Fact::EmitRefused { event } => drop(self.emitted.insert(*event, EmitState::Refused)),
            _ => {}
        }
    }

    /// Whether an operator changed the course of the job, so that its runs say nothing about order.
    pub(super) fn is_disturbed(&self, job: Uuid) -> bool {
        self.purge_sent.contains(&job) || self.retry_sent.contains_key(&job)
    }

    /// From the start of the first run of a worker in Rust to the end of the last one.
    pub(super) fn span(&self, job: Uuid) -> Option<(u64, u64)> {
        let runs = self.runs.get(&job)?;
        let mut rust = runs.iter().filter(|run| run.kind == Kind::Rust);
        let first = rust.next()?;
        let last = rust.next_back().unwrap_or(first);
        Some((first.from, last.to.unwrap_or(last.from)))
    }
}
