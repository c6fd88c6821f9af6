//! The specification of the queue, in memory: every rule of a job's life in its simplest form.
//!
//! It shares with the engine only the pure decision about an ended attempt and the table of transitions. Each operation returns a
//! line of text; the real queue must return the same line, and have the same state afterwards (`check`).

mod moves;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass::internals::settle::Outcome;
use windlass::job::{AttemptOutcome, IfUnmet, State, Unique};

use super::definition::DEFINITIONS;
use super::operation::{Ending, Operation, Request, TICK};

pub(super) const WORKERS: usize = 3;
pub(super) const TENANTS: usize = 2;
pub(super) const LANES: usize = TENANTS * DEFINITIONS.len();

/// Nowhere is a job that was a duplicate, was rejected, or is purged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Nowhere,
    Queued(u64),
    Running {
        worker: usize,
        token: u128,
        is_canceled: bool,
    },
    Scheduled(Due),
    Blocked(Option<Due>),
    Ended {
        state: State,
        reason: Option<&'static str>,
        by_attempt: i32,
    },
}

/// A tick, and the order of the instants within it.
pub(super) type Due = (i64, u64);

impl Place {
    pub(super) fn state(&self) -> Option<State> {
        match self {
            Self::Nowhere => None,
            Self::Queued(_) => Some(State::Queued),
            Self::Running { .. } => Some(State::Running),
            Self::Scheduled(_) => Some(State::Scheduled),
            Self::Blocked(_) => Some(State::Blocked),
            Self::Ended { state, .. } => Some(*state),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) place: Place,
    pub(super) attempt: i32,
    pub(super) failures: i16,
    pub(super) lost: i16,
    pub(super) snoozes: i32,
    pub(super) deadline: Option<i64>,
    pub(super) holds_dedupe: bool,
    pub(super) outcomes: Vec<AttemptOutcome>,
}

/// All claims so far, so that stale fences can be tested.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) job: usize,
    pub(super) attempt: i32,
    pub(super) token: u128,
    pub(super) claimed_at: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lease {
    #[default]
    Valid,
    Overdue,
    Closed,
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) job: usize,
    /// None is forever.
    pub(super) until: Option<i64>,
    pub(super) released_at_end: bool,
}

/// A key of a tenant.
type Key = (usize, u8);

#[derive(Debug, Clone, Default)]
pub(super) struct Reference {
    pub(super) now: i64,
    pub(super) jobs: Vec<Job>,
    pub(super) runs: Vec<Run>,
    pub(super) claims: u128,
    /// Per worker: how often it was started, and its lease.
    pub(super) workers: [(u32, Lease); WORKERS],
    /// The number of abandoned claims of each.
    pub(super) epochs: [i32; WORKERS],
    pub(super) dedupe: BTreeMap<Key, Slot>,
    pub(super) expiry: BTreeMap<(usize, bool), i64>,
    /// (needed, waiting). Those of a job that ended while it waited are kept while its dependency holds its ordering key: the
    /// successor waits for that instead.
    needs: BTreeMap<(usize, usize), IfUnmet>,
    ordering: BTreeMap<Key, usize>,
    /// The job of a key, and the whole request under it.
    idempotency: BTreeMap<Key, (usize, Request)>,
    instants: u64,
    pub(super) answer: String,
}

pub(super) const fn tenant_of(job: usize) -> usize {
    job % TENANTS
}

/// The number of a job that `parent` chains while there are this many: the next one of its tenant.
pub(super) const fn chained(parent: usize, jobs: usize) -> usize {
    jobs + (jobs + parent) % TENANTS
}

impl Reference {
    pub(super) fn made(&self) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(|&job| self.jobs[job].place != Place::Nowhere)
    }

    pub(super) fn lane_of(&self, job: usize) -> usize {
        tenant_of(job) * DEFINITIONS.len() + self.jobs[job].request.definition
    }

    pub(super) fn current_runs(&self) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).filter(|&run| self.is_current(&self.runs[run]))
    }

    /// The ids of a claim's runs, in the order of lanes and of each lane's queue.
    pub(super) fn in_line(&self, lane: usize) -> Vec<usize> {
        let seq = |job: usize| match self.jobs[job].place {
            Place::Queued(seq) => Some((seq, job)),
            _ => None,
        };
        let line: BTreeSet<_> =
            self.made().filter(|&job| self.lane_of(job) == lane).filter_map(seq).collect();
        line.into_iter().map(|(_, job)| job).collect()
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        self.answer = match operation {
            Operation::Enqueue(request) => self.enqueue(self.jobs.len(), request),
            Operation::Claim { worker, is_late, most } => self.claim(*worker, *is_late, most),
            Operation::GiveUp { worker } => {
                self.epochs[*worker] += 1;
                String::new()
            }
            Operation::Settle { run, is_forged, ending } => self.settle(*run, *is_forged, ending),
            Operation::CompleteAll { worker } => self.complete_all(*worker),
            Operation::Heartbeat { worker } => self.heartbeat(*worker),
            Operation::Silence { worker } => {
                if self.workers[*worker].1 == Lease::Valid {
                    self.workers[*worker].1 = Lease::Overdue;
                }
                String::new()
            }
            Operation::Reap => self.reap(),
            Operation::Restart { worker } => {
                if self.workers[*worker].1 == Lease::Closed {
                    self.workers[*worker] = (self.workers[*worker].0 + 1, Lease::Valid);
                    self.epochs[*worker] = 0;
                }
                String::new()
            }
            Operation::Pass { ticks } => {
                self.now += ticks;
                String::new()
            }
            Operation::Promote => self.promote(),
            Operation::Expire => self.expire(),
            Operation::Cancel { job } => self.cancel(*job).to_owned(),
            Operation::Retry { job } => self.retry(*job),
            Operation::Purge { job, keeps_promises } => self.purge(*job, *keeps_promises),
            Operation::Fold => String::new(),
            Operation::UnblockAll => "missed 0".to_owned(),
        };
    }

    fn enqueue(&mut self, id: usize, request: &Request) -> String {
        // A chained job belongs to its parent's tenant, so numbers may be skipped.
        self.jobs.resize_with(id + 1, || Job { request: request.clone(), ..Job::default() });
        let tenant = tenant_of(id);
        let at = self.instant();
        let idempotency = request.idempotency.map(|key| (tenant, key));
        let mine = |need: &usize| tenant_of(*need) == tenant;
        let asked =
            Request { needs: request.needs.iter().copied().filter(mine).collect(), ..request.clone() };
        match idempotency.and_then(|key| self.idempotency.get(&key)) {
            // A deadline is an instant, and the system computes it again for each request.
            Some((_, other)) if *other != asked || asked.deadline.is_some() => {
                return "refused WL006".to_owned();
            }
            Some((job, _)) => return self.named("duplicate", *job),
            None => {}
        }
        if let Some(job) = request.dedupe.and_then(|(key, _)| self.holder((tenant, key))) {
            self.idempotency.extend(idempotency.map(|key| (key, (job, asked))));
            return self.named("duplicate", job);
        }
        let needs: BTreeSet<usize> =
            request.needs.iter().copied().filter(|&need| tenant_of(need) == tenant).collect();
        if request.needs_nobody || needs.iter().any(|&need| self.jobs[need].place == Place::Nowhere) {
            return "refused WL008".to_owned();
        }

        self.idempotency.extend(idempotency.map(|key| (key, (id, asked))));
        if let Some((key, unique)) = request.dedupe {
            let (until, released_at_end) = match unique {
                Unique::Active => (None, true),
                Unique::Forever => (None, false),
                Unique::Window(window) => (Some(self.now + ticks(window)), false),
                _ => panic!("the model does not support {unique:?}"),
            };
            self.dedupe.insert((tenant, key), Slot { job: id, until, released_at_end });
            self.jobs[id].holds_dedupe = released_at_end;
        }
        let previous = request.ordering.and_then(|key| self.ordering.insert((tenant, key), id));
        let waits = |previous| request.if_unmet != Some(IfUnmet::Run) || self.holds_key(previous);
        let before = match previous {
            // A purged one passes on its dependencies.
            Some(previous) if self.jobs[previous].place == Place::Nowhere => self.needs_of(previous),
            Some(previous) if waits(previous) => BTreeSet::from([previous]),
            _ => BTreeSet::new(),
        };
        for previous in before {
            self.needs.insert((previous, id), request.if_unmet.unwrap_or(IfUnmet::Wait));
        }
        for need in needs {
            self.needs.entry((need, id)).or_insert(request.if_unmet.unwrap_or(IfUnmet::Cancel));
        }
        let starts_at = request.delay.map(|delay| (self.now + delay, at));
        self.jobs[id].deadline = request.deadline.map(|deadline| self.now + deadline);
        self.expiry.extend(self.jobs[id].deadline.map(|deadline| ((id, false), deadline)));
        let start_deadline = DEFINITIONS[request.definition].start_deadline;
        let starts_by = start_deadline.map(|ticks| starts_at.map_or(self.now, |due| due.0) + ticks);
        self.expiry.extend(starts_by.map(|at| ((id, true), at)));
        if self.needs_of(id).is_empty() {
            self.start(id, starts_at);
        } else {
            self.put(id, Place::Blocked(starts_at));
            self.unblock(self.needs_of(id));
        }
        self.named("enqueued", id)
    }

    /// A late claim was sent before its worker abandoned it, if it ever abandoned one.
    fn claim(&mut self, worker: usize, is_late: bool, most: &[usize; LANES]) -> String {
        self.claims += 1;
        let mut answer = "claimed".to_owned();
        if self.workers[worker].1 != Lease::Valid || (is_late && self.epochs[worker] > 0) {
            return answer;
        }
        let mut late = BTreeSet::new();
        for (lane, &most) in most.iter().enumerate() {
            for job in self.in_line(lane).into_iter().take(most) {
                if self.is_late(job) {
                    late.insert(job);
                    continue;
                }
                let (token, claimed_at) = (self.claims, self.now);
                self.jobs[job].attempt += 1;
                self.put(job, Place::Running { worker, token, is_canceled: false });
                let attempt = self.jobs[job].attempt;
                self.runs.push(Run { job, attempt, token, claimed_at });
                answer += &format!(" {job}#{attempt}");
            }
        }
        self.fail_late(late);
        answer
    }

    fn settle(&mut self, run: usize, is_forged: bool, ending: &Ending) -> String {
        let run = self.runs[run];
        if is_forged || !self.is_current(&run) {
            return "lease lost".to_owned();
        }
        let overruled = matches!(self.jobs[run.job].place, Place::Running { is_canceled: true, .. });
        let before = self.clone();
        self.end(run.job, ending.outcome());
        if let (Ending::Chain(next), false) = (ending, overruled) {
            let answer = self.enqueue(chained(run.job, self.jobs.len()), next);
            if answer.starts_with("refused") {
                *self = before;
                return answer;
            }
        }
        self.unblock(BTreeSet::from([run.job]));
        if overruled { "overruled".to_owned() } else { "settled".to_owned() }
    }

    fn complete_all(&mut self, worker: usize) -> String {
        let is_held =
            |job: &usize| matches!(self.jobs[*job].place, Place::Running { worker: by, .. } if by == worker);
        let held = self.made().filter(is_held).collect();
        format!("settled {}", self.end_all(held, Outcome::Succeeded))
    }

    fn end_all(&mut self, jobs: BTreeSet<usize>, outcome: Outcome) -> usize {
        let count = jobs.len();
        for &job in &jobs {
            self.end(job, outcome);
        }
        self.unblock(jobs);
        count
    }

    fn is_current(&self, run: &Run) -> bool {
        let job = &self.jobs[run.job];
        matches!(job.place, Place::Running { token, .. } if token == run.token && job.attempt == run.attempt)
    }

    fn heartbeat(&mut self, worker: usize) -> String {
        if self.workers[worker].1 == Lease::Closed {
            return "lease expired".to_owned();
        }
        self.workers[worker].1 = Lease::Valid;
        let asked = self.made().filter(
            |&job| matches!(self.jobs[job].place, Place::Running { worker: by, is_canceled: true, .. } if by == worker),
        );
        format!("stop {:?}", asked.collect::<Vec<_>>())
    }

    /// Like the keeper: recovers the jobs of overdue workers, or else closes the workers.
    fn reap(&mut self) -> String {
        let is_lost = |job: &usize| matches!(self.jobs[*job].place, Place::Running { worker, .. } if self.workers[worker].1 == Lease::Overdue);
        let lost: BTreeSet<usize> = self.made().filter(is_lost).collect();
        for (_, lease) in
            self.workers.iter_mut().filter(|(_, lease)| lost.is_empty() && *lease == Lease::Overdue)
        {
            *lease = Lease::Closed;
        }
        format!("reaped {}", self.end_all(lost, Outcome::Lost))
    }
}

fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs() / TICK.as_secs()).unwrap_or(i64::MAX)
}
