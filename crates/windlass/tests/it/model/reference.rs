//! The queue as it should be, in memory and without haste: every rule of a job's life in the plainest form we know.
//!
//! It shares with the engine only the pure decision about an ended attempt and the table of transitions. Each operation
//! answers with a line of text; the real queue must give the same line, and look the same afterwards (`check`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass::job::backoff::{Backoff, Kind};
use windlass::job::settle::{Budget, Next, Outcome, RetryPolicy, Settlement, after_cancel, settle};
use windlass::job::state::allowed;
use windlass::{AttemptOutcome, IfUnmet, OnLost, OnTimeout, State, Unique};

use super::operation::{Ending, Operation, Request, TICK};

pub(super) const WORKERS: usize = 3;
pub(super) const TENANTS: usize = 2;
pub(super) const LANES: usize = TENANTS * DEFINITIONS.len();

/// A kind of job. Delays do not vary, so that the model knows them.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) key: &'static str,
    pub(super) max_attempts: i16,
    pub(super) max_lost: i16,
    pub(super) max_snoozes: i32,
    pub(super) on_timeout: OnTimeout,
    pub(super) on_lost: OnLost,
    pub(super) start_deadline: Option<i64>,
}

pub(super) const DEFINITIONS: [Definition; 2] = [
    Definition {
        key: "patient",
        max_attempts: 3,
        max_lost: 2,
        max_snoozes: 1,
        on_timeout: OnTimeout::Retry,
        on_lost: OnLost::Retry,
        start_deadline: None,
    },
    Definition {
        key: "touchy",
        max_attempts: 2,
        max_lost: 3,
        max_snoozes: 2,
        on_timeout: OnTimeout::Fail,
        on_lost: OnLost::Fail,
        start_deadline: Some(2),
    },
];

impl Definition {
    /// What the engine decides, with the least random number: a lost job is due at once.
    pub(super) fn decide(&self, budget: &Budget, outcome: Outcome) -> Settlement {
        let backoff = self.backoff();
        let policy = RetryPolicy { backoff, on_timeout: self.on_timeout, on_lost: self.on_lost };
        let budget = Budget { max_lost: self.max_lost, max_snoozes: self.max_snoozes, ..*budget };
        settle(&budget, &policy, outcome, 0.0)
    }

    pub(super) fn backoff(&self) -> Backoff {
        let seconds = TICK.as_secs_f64();
        Backoff { kind: Kind::Fixed, base_seconds: seconds, factor: 1.0, cap_seconds: seconds, jitter: 0.0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Answered by another job, refused, or purged.
    Nowhere,
    Queued {
        seq: u64,
    },
    Running {
        worker: usize,
        token: u128,
        is_canceled: bool,
    },
    Scheduled {
        due: Due,
    },
    Blocked {
        scheduled_for: Option<Due>,
    },
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
            Self::Queued { .. } => Some(State::Queued),
            Self::Running { .. } => Some(State::Running),
            Self::Scheduled { .. } => Some(State::Scheduled),
            Self::Blocked { .. } => Some(State::Blocked),
            Self::Ended { state, .. } => Some(*state),
        }
    }
}

#[derive(Debug, Clone)]
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

/// Everything that was ever claimed, so that stale fences can be tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) job: usize,
    pub(super) attempt: i32,
    pub(super) token: u128,
    pub(super) claimed_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    Valid,
    Overdue,
    Closed,
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) job: usize,
    /// None is for ever.
    pub(super) until: Option<i64>,
    pub(super) released_at_end: bool,
}

/// A key of a tenant.
type Key = (usize, u8);

#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) now: i64,
    pub(super) jobs: Vec<Job>,
    pub(super) runs: Vec<Run>,
    pub(super) claims: u128,
    /// Per worker: how often it was started, and its lease.
    pub(super) workers: [(u32, Lease); WORKERS],
    pub(super) dedupe: BTreeMap<Key, Slot>,
    pub(super) expiry: BTreeMap<(usize, bool), i64>,
    /// (needed, waiting). Those of a job that ended while it waited stay, as long as what it waited for holds its
    /// ordering key: whoever comes next waits for that instead.
    needs: BTreeMap<(usize, usize), IfUnmet>,
    ordering: BTreeMap<Key, usize>,
    idempotency: BTreeMap<Key, (usize, Body)>,
    instants: u64,
    pub(super) answer: String,
}

type Body = (usize, Option<u8>, Option<u8>);

/// Moves that the SQL makes and `03-lifecycle.md` does not list: a job that waited for others and for time, a deadline
/// that passes behind another job, and a retry behind another job of its ordering key.
const BEYOND_THE_TABLE: [(State, State); 6] = [
    (State::Blocked, State::Scheduled),
    (State::Blocked, State::Failed),
    (State::Succeeded, State::Blocked),
    (State::Failed, State::Blocked),
    (State::DeadLetter, State::Blocked),
    (State::Canceled, State::Blocked),
];

pub(super) const fn tenant_of(job: usize) -> usize {
    job % TENANTS
}

impl Reference {
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            jobs: Vec::new(),
            runs: Vec::new(),
            claims: 0,
            workers: [(0, Lease::Valid); WORKERS],
            dedupe: BTreeMap::new(),
            expiry: BTreeMap::new(),
            needs: BTreeMap::new(),
            ordering: BTreeMap::new(),
            idempotency: BTreeMap::new(),
            instants: 0,
            answer: String::new(),
        }
    }

    pub(super) fn made(&self) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(|&job| self.jobs[job].place != Place::Nowhere)
    }

    pub(super) fn lane_of(&self, job: usize) -> usize {
        tenant_of(job) * DEFINITIONS.len() + self.jobs[job].request.definition
    }

    pub(super) fn current_runs(&self) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).filter(|&run| self.is_current(&self.runs[run]))
    }

    /// The ids of a claim's runs, in the order of lanes and of each lane's line.
    pub(super) fn in_line(&self, lane: usize) -> Vec<usize> {
        let seq = |job: usize| match self.jobs[job].place {
            Place::Queued { seq } => Some((seq, job)),
            _ => None,
        };
        let line: BTreeSet<_> =
            self.made().filter(|&job| self.lane_of(job) == lane).filter_map(seq).collect();
        line.into_iter().map(|(_, job)| job).collect()
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        self.answer = match operation {
            Operation::Enqueue(request) => {
                let job = self.jobs.len();
                self.enqueue(job, request)
            }
            Operation::Claim { worker, most } => self.claim(*worker, most),
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
        // A chained job stands in its parent's tenant, so numbers may be left out.
        while self.jobs.len() <= id {
            let (request, place) = (request.clone(), Place::Nowhere);
            let (attempt, failures, lost, snoozes) = (0, 0, 0, 0);
            let (deadline, holds_dedupe, outcomes) = (None, false, Vec::new());
            self.jobs.push(Job {
                request,
                place,
                attempt,
                failures,
                lost,
                snoozes,
                deadline,
                holds_dedupe,
                outcomes,
            });
        }
        let tenant = tenant_of(id);
        let at = self.instant(0);
        let idempotency = request.idempotency.map(|key| (tenant, key));
        let body = (request.definition, request.dedupe.map(|(key, _)| key), request.ordering);
        match idempotency.and_then(|key| self.idempotency.get(&key)) {
            Some((_, other)) if *other != body => return "refused WL006".to_owned(),
            Some((job, _)) => return self.named("duplicate", *job),
            None => {}
        }
        let holder = request.dedupe.and_then(|(key, _)| self.holder((tenant, key)));
        if let Some(job) = holder {
            self.idempotency.extend(idempotency.map(|key| (key, (job, body))));
            return self.named("duplicate", job);
        }
        let needs: BTreeSet<usize> =
            request.needs.iter().copied().filter(|&need| tenant_of(need) == tenant).collect();
        if request.needs_nobody || needs.iter().any(|&need| self.jobs[need].place == Place::Nowhere) {
            return "refused WL008".to_owned();
        }

        self.idempotency.extend(idempotency.map(|key| (key, (id, body))));
        if let Some((key, unique)) = request.dedupe {
            let (until, released_at_end) = match unique {
                Unique::Active => (None, true),
                Unique::Forever => (None, false),
                Unique::Window(window) => (Some(self.now + ticks(window)), false),
            };
            self.dedupe.insert((tenant, key), Slot { job: id, until, released_at_end });
            self.jobs[id].holds_dedupe = released_at_end;
        }
        if let Some(previous) = request.ordering.and_then(|key| self.ordering.insert((tenant, key), id)) {
            if request.if_unmet != Some(IfUnmet::Run) || self.holds_key(previous) {
                self.needs.insert((previous, id), request.if_unmet.unwrap_or(IfUnmet::Wait));
            }
        }
        for need in needs {
            self.needs.entry((need, id)).or_insert(request.if_unmet.unwrap_or(IfUnmet::Cancel));
        }
        let starts_at = request.delay.map(|delay| (self.now + delay, at.1));
        self.jobs[id].deadline = request.deadline.map(|deadline| self.now + deadline);
        self.expiry.extend(self.jobs[id].deadline.map(|deadline| ((id, false), deadline)));
        let start_deadline = DEFINITIONS[request.definition].start_deadline;
        let starts_by = start_deadline.map(|ticks| starts_at.map_or(self.now, |due| due.0) + ticks);
        self.expiry.extend(starts_by.map(|at| ((id, true), at)));
        if self.needs_of(id).is_empty() {
            self.start(id, starts_at);
        } else {
            self.put(id, Place::Blocked { scheduled_for: starts_at });
            self.unblock(self.needs_of(id));
        }
        self.named("enqueued", id)
    }

    fn claim(&mut self, worker: usize, most: &[usize; LANES]) -> String {
        self.claims += 1;
        if self.workers[worker].1 == Lease::Closed {
            return "claimed".to_owned();
        }
        let mut answer = "claimed".to_owned();
        for (lane, &most) in most.iter().enumerate() {
            for job in self.in_line(lane).into_iter().take(most) {
                let (token, claimed_at) = (self.claims, self.now);
                self.jobs[job].attempt += 1;
                self.put(job, Place::Running { worker, token, is_canceled: false });
                let attempt = self.jobs[job].attempt;
                self.runs.push(Run { job, attempt, token, claimed_at });
                answer += &format!(" {job}#{attempt}");
            }
        }
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
            let answer = self.enqueue(self.next_of(run.job), next);
            if answer.starts_with("refused") {
                *self = before;
                return answer;
            }
        }
        self.unblock(BTreeSet::from([run.job]));
        if overruled { "overruled".to_owned() } else { "settled".to_owned() }
    }

    /// The number a job chained by this one gets.
    pub(super) fn next_of(&self, parent: usize) -> usize {
        self.jobs.len() + (self.jobs.len() + parent) % TENANTS
    }

    fn complete_all(&mut self, worker: usize) -> String {
        let held: BTreeSet<usize> = self.made().filter(|&job| self.is_held_by(job, worker)).collect();
        for &job in &held {
            self.end(job, Outcome::Succeeded);
        }
        let answer = format!("settled {}", held.len());
        self.unblock(held);
        answer
    }

    fn is_held_by(&self, job: usize, by: usize) -> bool {
        matches!(self.jobs[job].place, Place::Running { worker, .. } if worker == by)
    }

    fn is_current(&self, run: &Run) -> bool {
        let job = &self.jobs[run.job];
        matches!(job.place, Place::Running { token, .. } if token == run.token && job.attempt == run.attempt)
    }

    fn heartbeat(&mut self, worker: usize) -> String {
        if self.workers[worker].1 == Lease::Closed {
            return "declared dead".to_owned();
        }
        self.workers[worker].1 = Lease::Valid;
        let asked = self.made().filter(
            |&job| matches!(self.jobs[job].place, Place::Running { worker: by, is_canceled: true, .. } if by == worker),
        );
        format!("stop {:?}", asked.collect::<Vec<_>>())
    }

    /// As the keeper does it: takes the jobs of overdue workers, or else closes the workers.
    fn reap(&mut self) -> String {
        let is_overdue = |worker: &usize| self.workers[*worker].1 == Lease::Overdue;
        let overdue: Vec<usize> = (0..WORKERS).filter(is_overdue).collect();
        let lost: BTreeSet<usize> =
            self.made().filter(|&job| overdue.iter().any(|&worker| self.is_held_by(job, worker))).collect();
        if lost.is_empty() {
            for worker in overdue {
                self.workers[worker].1 = Lease::Closed;
            }
        }
        for &job in &lost {
            self.end(job, Outcome::Lost);
        }
        let answer = format!("reaped {}", lost.len());
        self.unblock(lost);
        answer
    }

    fn promote(&mut self) -> String {
        let due = |job: usize| match self.jobs[job].place {
            Place::Scheduled { due } if due.0 <= self.now => Some((due, job)),
            _ => None,
        };
        let due: BTreeSet<(Due, usize)> = self.made().filter_map(due).collect();
        for &(_, job) in &due {
            self.start(job, None);
        }
        format!("promoted {}", due.len())
    }

    fn expire(&mut self) -> String {
        let passed: Vec<_> =
            self.expiry.extract_if(.., |_, at| *at <= self.now).map(|(key, _)| key).collect();
        let looked: Vec<usize> = passed
            .into_iter()
            .filter(|&(job, only_unstarted)| !only_unstarted || self.jobs[job].outcomes.is_empty())
            .map(|(job, _)| job)
            .collect();
        let mut ended = BTreeSet::new();
        for &job in &looked {
            if self.end_waiting(job, State::Failed, "expired") {
                ended.insert(job);
            }
        }
        self.unblock(ended);
        format!("looked at {}", looked.len())
    }

    fn cancel(&mut self, job: usize) -> &'static str {
        match &mut self.jobs[job].place {
            Place::Nowhere => "missing",
            Place::Ended { .. } => "finished",
            Place::Running { is_canceled, .. } => {
                *is_canceled = true;
                "requested"
            }
            Place::Queued { .. } | Place::Scheduled { .. } | Place::Blocked { .. } => {
                self.end_waiting(job, State::Canceled, "canceled");
                self.unblock(BTreeSet::from([job]));
                "canceled"
            }
        }
    }

    fn retry(&mut self, job: usize) -> String {
        match self.jobs[job].place {
            Place::Nowhere => return "missing".to_owned(),
            Place::Ended { .. } => {}
            _ => return "not_finished".to_owned(),
        }
        let tenant = tenant_of(job);
        let request = self.jobs[job].request.clone();
        if let Some((key, _)) = request.dedupe {
            match (self.holder((tenant, key)), self.dedupe.get(&(tenant, key))) {
                (Some(holder), Some(slot)) if slot.until.is_none() && holder != job => {
                    return format!("duplicate {holder}");
                }
                // A key with an end counts when a job is accepted, and a retry accepts none.
                (Some(_), _) => self.jobs[job].holds_dedupe = false,
                (None, _) => {
                    self.dedupe.insert((tenant, key), Slot { job, until: None, released_at_end: true });
                    self.jobs[job].holds_dedupe = true;
                }
            }
        }
        if let Some(key) = request.ordering {
            let is_head = self.needs.keys().any(|&(need, waiting)| {
                need == job
                    && self.share_key(job, waiting)
                    && matches!(self.jobs[waiting].place, Place::Blocked { .. })
            });
            if !is_head {
                let last = self.ordering.insert((tenant, key), job);
                if let Some(last) = last.filter(|&last| last != job && self.holds_key(last)) {
                    self.needs.entry((last, job)).or_insert(IfUnmet::Run);
                }
            }
        }
        let fresh = &mut self.jobs[job];
        (fresh.failures, fresh.lost, fresh.snoozes) = (0, 0, 0);
        if self.needs_of(job).is_empty() {
            self.start(job, None);
        } else {
            self.put(job, Place::Blocked { scheduled_for: None });
            self.unblock(self.needs_of(job));
        }
        self.jobs[job].place.state().map_or_else(String::new, |state| state.to_string())
    }

    fn purge(&mut self, job: usize, keeps_promises: bool) -> String {
        if self.jobs[job].place == Place::Nowhere {
            return "purged 0".to_owned();
        }
        let keeps_promises = keeps_promises && matches!(self.jobs[job].place, Place::Ended { .. });
        let is_open = |until: Option<i64>| until.is_none_or(|until| until > self.now);
        self.dedupe.retain(|_, slot| slot.job != job || (keeps_promises && is_open(slot.until)));
        self.expiry.retain(|(of, _), _| *of != job);
        self.forget_needs(job);
        self.jobs[job].place = Place::Nowhere;
        self.unblock(BTreeSet::from([job]));
        "purged 1".to_owned()
    }

    /// Looks again at whoever waits for these. What it decides may decide others, wave by wave.
    fn unblock(&mut self, mut ended: BTreeSet<usize>) {
        while !ended.is_empty() {
            let before = self.needs.clone();
            let (mut next, mut canceled, mut waiting) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for (&(need, job), &if_unmet) in before.iter().filter(|((need, _), _)| ended.contains(need)) {
                let met = match (self.jobs[need].place.state(), if_unmet) {
                    (Some(state), _) if !state.is_terminal() => continue,
                    (None | Some(State::Succeeded), _) | (_, IfUnmet::Run) => true,
                    (state, IfUnmet::Wait) => state == Some(State::Canceled),
                    (_, IfUnmet::Cancel) => false,
                };
                waiting.insert(job);
                if met {
                    // What it had been waiting for itself still comes before the one that waited for it.
                    for &(deeper, _) in before.keys().filter(|&&(deeper, link)| link == need && deeper != job)
                    {
                        self.needs.entry((deeper, job)).or_insert(if_unmet);
                        next.insert(deeper);
                    }
                } else if if_unmet == IfUnmet::Cancel {
                    canceled.insert(job);
                } else {
                    continue;
                }
                self.needs.remove(&(need, job));
            }
            for &job in &canceled {
                self.end_waiting(job, State::Canceled, "dependency");
            }
            for job in waiting {
                match self.jobs[job].place {
                    Place::Blocked { scheduled_for } if self.needs_of(job).is_empty() => {
                        self.start(job, scheduled_for)
                    }
                    _ => {}
                }
            }
            ended = next.into_iter().chain(canceled).collect();
        }
    }

    fn end(&mut self, job: usize, outcome: Outcome) {
        let is_canceled = matches!(self.jobs[job].place, Place::Running { is_canceled: true, .. });
        let at = self.instant(0);
        let it = &mut self.jobs[job];
        let remaining = it.deadline.map(|deadline| TICK * u32::try_from(deadline - self.now).unwrap_or(0));
        let definition = &DEFINITIONS[it.request.definition];
        let max_attempts = it.request.max_attempts.unwrap_or(definition.max_attempts);
        let Job { attempt, failures, lost, snoozes, .. } = *it;
        let (max_lost, max_snoozes, cancel_requested) = (0, 0, false);
        let budget = Budget {
            attempt,
            failures,
            lost,
            snoozes,
            max_attempts,
            max_lost,
            max_snoozes,
            cancel_requested,
            remaining,
        };
        let decided = definition.decide(&budget, outcome);
        let decided = if is_canceled { after_cancel(decided) } else { decided };
        it.outcomes.push(decided.attempt_outcome);
        let reason = decided.reason.map(|reason| reason.as_str());
        match decided.next {
            Next::Queued => self.start(job, None),
            Next::Scheduled { after } => {
                (it.failures, it.lost, it.snoozes) = (decided.failures, decided.lost, decided.snoozes);
                let due = (self.now + ticks(after), at.1);
                self.put(job, Place::Scheduled { due });
            }
            Next::Succeeded | Next::Failed | Next::DeadLetter | Next::Canceled => {
                self.free_dedupe(job);
                self.put(job, Place::Ended { state: decided.next.state(), reason, by_attempt: attempt });
            }
        }
    }

    /// Ends a job that is not running; says whether it was one.
    fn end_waiting(&mut self, job: usize, state: State, reason: &'static str) -> bool {
        let waits = matches!(
            self.jobs[job].place,
            Place::Queued { .. } | Place::Scheduled { .. } | Place::Blocked { .. }
        );
        if waits {
            self.free_dedupe(job);
            self.forget_needs(job);
            self.put(job, Place::Ended { state, reason: Some(reason), by_attempt: 0 });
        }
        waits
    }

    fn start(&mut self, job: usize, at: Option<Due>) {
        let place = match at {
            Some(due) if due.0 > self.now => Place::Scheduled { due },
            _ => Place::Queued { seq: self.instant(0).1 },
        };
        self.put(job, place);
    }

    fn put(&mut self, job: usize, place: Place) {
        let (from, to) = (self.jobs[job].place.state(), place.state());
        let is_listed =
            |to| allowed(from, to) || from.is_some_and(|from| BEYOND_THE_TABLE.contains(&(from, to)));
        assert!(to.is_some_and(is_listed), "no job moves from {from:?} to {to:?}");
        self.jobs[job].place = place;
    }

    fn instant(&mut self, after: i64) -> Due {
        self.instants += 1;
        (self.now + after, self.instants)
    }

    fn named(&self, answer: &str, job: usize) -> String {
        let state = self.jobs[job].place.state().map_or("gone", State::as_str);
        format!("{answer} {job} {state}")
    }

    fn holder(&self, key: Key) -> Option<usize> {
        let slot = self.dedupe.get(&key)?;
        slot.until.is_none_or(|until| until > self.now).then_some(slot.job)
    }

    fn free_dedupe(&mut self, job: usize) {
        self.dedupe.retain(|_, slot| slot.job != job || !slot.released_at_end);
    }

    fn needs_of(&self, job: usize) -> BTreeSet<usize> {
        self.needs.keys().filter(|(_, waiting)| *waiting == job).map(|(need, _)| *need).collect()
    }

    fn forget_needs(&mut self, job: usize) {
        let needs = std::mem::take(&mut self.needs);
        self.needs = needs
            .into_iter()
            .filter(|&((need, waiting), _)| waiting != job || self.share_key(need, job))
            .collect();
    }

    fn share_key(&self, one: usize, other: usize) -> bool {
        let key = |job: usize| self.jobs[job].request.ordering;
        key(one).is_some() && key(one) == key(other)
    }

    /// Whether the next job of its ordering key must wait for it, or for what it waits for.
    fn holds_key(&self, job: usize) -> bool {
        self.jobs[job].place.state().is_some_and(|state| !state.is_terminal())
            || !self.needs_of(job).is_empty()
    }
}

fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs() / TICK.as_secs()).unwrap_or(i64::MAX)
}
