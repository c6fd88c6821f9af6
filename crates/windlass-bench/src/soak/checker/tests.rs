//! Every kind of violation is detected: each case spoils one thing of a run without violations, and the check of that thing reports it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use windlass::job::{AttemptOutcome, State};

use super::evidence::{AttemptRow, EventRow, Evidence, FireRow, JobRow};
use super::{CHECKS, check, recoveries, trace};
use crate::soak::ledger::{Entry, Fact, Kind};
use crate::soak::work::{CHILD, CONCURRENCY, EFFECT, EVENT, LIMITED, MAX_LOST, TICK, WORK};

const TENANT: Uuid = Uuid::from_u128(1);
const SCHEDULE: Uuid = Uuid::from_u128(2);
/// The job of an intent.
const fn job(intent: u64) -> Uuid {
    Uuid::from_u128(1000 + intent as u128)
}
const EVENT_JOB: Uuid = Uuid::from_u128(3);
const TICK_JOB: Uuid = Uuid::from_u128(4);
const CHILD_JOB: Uuid = Uuid::from_u128(5);

const PLAIN: u64 = 1;
const WITH_KEY: u64 = 2;
const FROM_SQL: u64 = 3;
const EFFECTIVE: u64 = 4;
const FIRST: u64 = 5;
const SECOND: u64 = 6;
const DEPENDENT: u64 = 7;
const PARENT: u64 = 8;
const CANCELED: u64 = 9;
const RETRIED: u64 = 10;
const ROLLED_BACK: u64 = 99;

/// A run in which everything is right.
struct Case(Evidence);

impl Case {
    fn good() -> Self {
        let mut case = Self(Evidence::default());
        let works = [PLAIN, WITH_KEY, FROM_SQL, FIRST, SECOND, DEPENDENT, PARENT];
        for intent in works {
            case.add(intent, WORK);
        }
        case.add(EFFECTIVE, EFFECT);
        case.0.effects.insert((job(EFFECTIVE), 1));
        case.note(3, Fact::Committed { job: job(EFFECTIVE), attempt: 1 });
        case.0.sent.insert(FROM_SQL);
        for (intent, at) in [(FIRST, 10), (SECOND, 11)] {
            case.note(at, Fact::Ordered { intent, key: "order".into() });
            case.row(intent).dedupe_key = Some("key".into());
        }
        case.note(10, Fact::Depends { intent: DEPENDENT, on: vec![job(SECOND)] });
        case.row(PARENT).children = 1;
        let child =
            JobRow { id: CHILD_JOB, definition: CHILD.into(), parent: Some(job(PARENT)), ..plain_row() };
        case.0.jobs.push(child);
        case.end(CHILD_JOB, AttemptOutcome::Succeeded, State::Succeeded);

        case.send(CANCELED, WORK);
        case.0.jobs.push(JobRow { id: job(CANCELED), n: CANCELED, ..plain_row() });
        let status = Some(State::Canceled);
        case.0.attempts.push(AttemptRow {
            job: job(CANCELED),
            attempt: 0,
            outcome: None,
            status,
            started_at: None,
        });
        case.note(20, Fact::CancelSent { job: job(CANCELED) });
        case.note(21, Fact::Canceled { job: job(CANCELED), was_running: false });
        case.0.audited.insert(("job.cancel".into(), job(CANCELED)), 1);

        // Its worker was killed, and another one ran it again.
        case.send(RETRIED, WORK);
        case.0.jobs.push(JobRow { id: job(RETRIED), n: RETRIED, ..plain_row() });
        case.0.attempts.push(ended(job(RETRIED), 1, AttemptOutcome::Lost, None));
        case.0.attempts.push(ended(job(RETRIED), 2, AttemptOutcome::Succeeded, Some(State::Succeeded)));
        case.run(job(RETRIED), 1, 7, (2_000_000_000, None));
        case.note(3_000_000_000, Fact::Died { pid: 7, name: "worker".into() });
        case.run(job(RETRIED), 2, 8, (9_000_000_000, Some(9_000_000_001)));

        case.send(ROLLED_BACK, WORK);
        case.0.entries.retain(|entry| !matches!(entry.fact, Fact::Acked { intent: ROLLED_BACK, .. }));
        case.note(12, Fact::Refused { intent: ROLLED_BACK, why: "rolled back".into() });

        case.note(1, Fact::Emitted { event: 1, tenant: TENANT });
        case.note(2, Fact::EmitAcked { event: 1 });
        case.0.emitted.insert(1);
        case.0.events.push(EventRow { n: 1, fired: vec![EVENT_JOB], is_pending: false });
        case.0.fires.push(FireRow { trigger: SCHEDULE, due: Timestamp::UNIX_EPOCH, job: Some(TICK_JOB) });
        case.0.due.push((SCHEDULE, Timestamp::UNIX_EPOCH));
        for (id, definition) in [(EVENT_JOB, EVENT), (TICK_JOB, TICK)] {
            case.0.jobs.push(JobRow { id, definition: definition.into(), ..plain_row() });
            case.end(id, AttemptOutcome::Succeeded, State::Succeeded);
        }
        case.0.counters.push(("succeeded".into(), 5, 5));
        case
    }

    /// An acknowledged job with one run, a hundred nanoseconds for each intent.
    fn add(&mut self, intent: u64, definition: &str) {
        self.send(intent, definition);
        let id = job(intent);
        self.0.jobs.push(JobRow { id, n: intent, definition: definition.into(), ..plain_row() });
        self.end(id, AttemptOutcome::Succeeded, State::Succeeded);
        let from = intent * 100;
        self.run(id, 1, 1, (from, Some(from + 50)));
    }

    fn send(&mut self, intent: u64, definition: &str) {
        let way = if intent == FROM_SQL { "sql" } else { "http" }.to_owned();
        let key = (intent == WITH_KEY).then(|| "request".to_owned());
        let definition = definition.to_owned();
        self.note(intent, Fact::Sent { intent, tenant: TENANT, definition, way, key, dedupe_key: None });
        self.note(intent + 1, Fact::Acked { intent, job: job(intent), is_duplicate: false });
    }

    fn end(&mut self, job: Uuid, outcome: AttemptOutcome, status: State) {
        self.0.attempts.push(ended(job, 1, outcome, Some(status)));
    }

    fn run(&mut self, job: Uuid, attempt: i32, pid: u32, (from, to): (u64, Option<u64>)) {
        self.note(from, Fact::Started { job, attempt, pid, kind: Kind::Rust });
        if let Some(to) = to {
            self.note(to, Fact::Ended { job, attempt, pid, is_success: true });
        }
    }

    fn note(&mut self, at: u64, fact: Fact) {
        self.0.entries.push(Entry { at, fact });
        self.0.entries.sort_by_key(|entry| entry.at);
    }

    fn row(&mut self, intent: u64) -> &mut JobRow {
        self.0.jobs.iter_mut().find(|row| row.id == job(intent)).unwrap()
    }

    fn attempt(&mut self, intent: u64) -> &mut AttemptRow {
        self.0.attempts.iter_mut().find(|row| row.job == job(intent)).unwrap()
    }

    /// The checks that found something.
    fn found(&self) -> BTreeSet<&'static str> {
        check(&self.0).iter().map(|violation| violation.check).collect()
    }
}

fn plain_row() -> JobRow {
    JobRow { tenant: TENANT, definition: WORK.into(), max_attempts: 12, ..JobRow::default() }
}

fn ended(job: Uuid, attempt: i32, outcome: AttemptOutcome, status: Option<State>) -> AttemptRow {
    AttemptRow { job, attempt, outcome: Some(outcome), status, started_at: Some(Timestamp::UNIX_EPOCH) }
}

/// The name of the spoiled thing, the check that must report it, and how it is spoiled.
type Spoiled = (&'static str, &'static str, fn(&mut Case));

const SPOILED: [Spoiled; 47] = [
    ("a job starts before the one it depends on", "1", |case| {
        case.run(job(DEPENDENT), 2, 1, (610, Some(620)));
        case.0.entries.retain(
            |entry| !matches!(entry.fact, Fact::Started { job: of, attempt: 1, .. } if of == job(DEPENDENT)),
        );
    }),
    ("a lost job", "9", |case| case.0.jobs.retain(|row| row.id != job(PLAIN))),
    ("a job with another payload", "9", |case| case.row(PLAIN).n = ROLLED_BACK + 1),
    ("the row of a transaction without its job", "9", |case| {
        case.0.entries.retain(|entry| !matches!(entry.fact, Fact::Acked { intent: FROM_SQL, .. }));
        case.0.jobs.retain(|row| row.id != job(FROM_SQL));
    }),
    ("a job of a transaction that was rolled back", "10", |case| {
        case.0.jobs.push(JobRow { id: job(ROLLED_BACK), n: ROLLED_BACK, ..plain_row() });
        case.end(job(ROLLED_BACK), AttemptOutcome::Succeeded, State::Succeeded);
    }),
    ("a job without the row of its transaction", "10", |case| case.0.sent.clear()),
    ("a job that nobody sent", "10", |case| {
        case.0.jobs.push(JobRow { id: job(77), n: 77, ..plain_row() });
        case.end(job(77), AttemptOutcome::Succeeded, State::Succeeded);
    }),
    ("two jobs of one enqueue", "10", |case| {
        case.0.jobs.push(JobRow { id: job(77), n: PLAIN, ..plain_row() });
        case.end(job(77), AttemptOutcome::Succeeded, State::Succeeded);
    }),
    ("a job of an event that no trigger recorded", "10", |case| case.0.events[0].fired = vec![TICK_JOB]),
    ("a job in two places", "2", |case| case.0.unfinished.push((job(PLAIN), "queued"))),
    ("a job in no place", "2", |case| case.0.attempts.retain(|row| row.job != job(CANCELED))),
    ("a place without a job", "2", |case| case.0.unfinished.push((job(78), "queued"))),
    ("a job that does not end", "11", |case| {
        case.attempt(PLAIN).status = None;
        case.0.unfinished.push((job(PLAIN), "queued"));
    }),
    ("a gap in the attempts", "3", |case| case.attempt(PLAIN).attempt = 2),
    ("a start that is not an attempt", "3", |case| case.run(job(PLAIN), 2, 1, (5000, Some(5001)))),
    ("an attempt after the final status", "4", |case| {
        case.0.attempts.push(ended(job(PLAIN), 2, AttemptOutcome::Lost, None));
    }),
    ("too many counted attempts", "13", |case| case.row(RETRIED).max_attempts = 0),
    ("too many lost attempts", "14", |case| {
        case.attempt(RETRIED).status = None;
        case.0.attempts.retain(|row| row.job != job(RETRIED));
        for attempt in 1..=i32::from(MAX_LOST) + 1 {
            let status = (attempt > i32::from(MAX_LOST)).then_some(State::DeadLetter);
            case.0.attempts.push(ended(job(RETRIED), attempt, AttemptOutcome::Lost, status));
        }
    }),
    ("an attempt that starts twice", "15", |case| case.run(job(PLAIN), 1, 2, (5000, Some(5001)))),
    ("an attempt without an outcome", "15", |case| case.attempt(PLAIN).outcome = None),
    ("a committed attempt that did not succeed", "15", |case| {
        case.attempt(EFFECTIVE).outcome = Some(AttemptOutcome::Failed);
    }),
    ("a write of an attempt that did not succeed", "16", |case| case.0.effects.extend([(job(EFFECTIVE), 2)])),
    ("a success without its write", "16", |case| case.0.effects.clear()),
    ("a success that nothing follows", "17", |case| case.0.jobs.retain(|row| row.id != CHILD_JOB)),
    ("a job that follows no success", "17", |case| {
        case.attempt(PARENT).outcome = Some(AttemptOutcome::Failed);
    }),
    ("two runs that overlap", "18", |case| {
        case.0.attempts.push(ended(job(PLAIN), 2, AttemptOutcome::Succeeded, Some(State::Succeeded)));
        case.attempt(PLAIN).status = None;
        case.run(job(PLAIN), 2, 2, (120, Some(300)));
    }),
    ("two processes of one job", "18", |case| case.note(7, Fact::Overlapped { job: job(PLAIN), attempt: 2 })),
    ("a process that is left", "20", |case| case.0.orphans.push("process 7".into())),
    ("two jobs of one idempotency key", "21", |case| {
        case.0.jobs.push(JobRow { id: job(77), n: WITH_KEY, ..plain_row() });
        case.end(job(77), AttemptOutcome::Succeeded, State::Succeeded);
    }),
    ("two responses to one idempotency key", "21", |case| {
        case.note(9, Fact::Acked { intent: WITH_KEY, job: job(PLAIN), is_duplicate: true });
    }),
    ("two active jobs of one key", "22", |case| {
        case.note(4000, Fact::Started { job: job(FIRST), attempt: 2, pid: 1, kind: Kind::Rust });
    }),
    ("two jobs of a key that is held forever", "22", |case| {
        case.row(PLAIN).dedupe_key = Some("forever 1".into());
        case.row(PARENT).dedupe_key = Some("forever 1".into());
    }),
    ("more running jobs than the limit of their definition", "25", |case| {
        for intent in [PLAIN, WITH_KEY, FROM_SQL, FIRST] {
            case.row(intent).definition = LIMITED.into();
            case.0.entries.retain(|entry| !matches!(entry.fact, Fact::Started { job: of, .. } | Fact::Ended { job: of, .. } if of == job(intent)));
            case.run(job(intent), 1, 1, (100, Some(200)));
        }
    }),
    ("two jobs within one window", "23", |case| {
        for intent in [PLAIN, PARENT] {
            for entry in &mut case.0.entries {
                if let Fact::Sent { intent: of, dedupe_key, .. } = &mut entry.fact
                    && *of == intent
                {
                    *dedupe_key = Some("window 1".into());
                }
            }
        }
    }),
    ("more runs than the concurrency of a worker", "28", |case| {
        for number in 200..=200 + CONCURRENCY as u64 {
            case.run(job(number), 1, 9, (100_000, Some(100_001)));
        }
    }),
    ("a row that is left", "left", |case| case.0.leftovers.push("a dedupe key is still held".into())),
    ("a snapshot beyond the quota", "27", |case| case.0.snapshots.push(("27", "301 of 300".into()))),
    ("two runs of one ordering key", "31", |case| {
        case.0.attempts.push(ended(job(FIRST), 2, AttemptOutcome::Succeeded, Some(State::Succeeded)));
        case.attempt(FIRST).status = None;
        case.run(job(FIRST), 2, 1, (560, Some(620)));
    }),
    ("a start before it is due", "32", |case| {
        case.row(PLAIN).scheduled_for = Some(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1));
    }),
    ("an instant that is decided twice", "35", |case| {
        let fire = case.0.fires[0].clone();
        case.0.fires.push(fire);
    }),
    ("an instant that is not decided", "35", |case| case.0.due.push((SCHEDULE, Timestamp::MAX))),
    ("a start after a cancel", "40", |case| {
        case.run(job(CANCELED), 1, 1, (5000, Some(5001)));
        case.0.attempts.push(ended(job(CANCELED), 1, AttemptOutcome::Canceled, None));
    }),
    ("a cancel that is not final", "40", |case| case.attempt(CANCELED).status = Some(State::Succeeded)),
    ("a counter that drifts", "48", |case| case.0.counters[0].1 = 6),
    ("an action that was not audited", "49", |case| case.0.audited.clear()),
    ("a broken chain", "49", |case| case.0.audit_faults.push("row 7 was changed".into())),
    ("an acknowledged event that is lost", "events", |case| {
        case.0.events.clear();
        case.0.jobs.retain(|row| row.id != EVENT_JOB);
        case.0.attempts.retain(|row| row.job != EVENT_JOB);
    }),
];

#[test]
fn a_run_without_violations_has_none() {
    assert_eq!(check(&Case::good().0), Vec::new());
}

#[test]
fn every_violation_is_detected() {
    for (what, expected, spoil) in SPOILED {
        let mut case = Case::good();
        spoil(&mut case);
        assert!(case.found().contains(expected), "{what}: {expected} is not in {:?}", case.found());
    }
    let tried: BTreeSet<&str> = SPOILED.iter().map(|(_, expected, _)| *expected).collect();
    assert_eq!(tried, CHECKS.iter().map(|(name, _)| *name).collect(), "every check has a case");
}

#[test]
fn what_was_asked_to_be_deleted_may_be_absent() {
    let mut case = Case::good();
    case.0.jobs.retain(|row| row.id != job(PLAIN));
    case.0.attempts.retain(|row| row.job != job(PLAIN));
    case.note(6000, Fact::PurgeSent { jobs: vec![job(PLAIN)] });
    assert_eq!(check(&case.0), Vec::new());
}

#[test]
fn a_deletion_by_hand_releases_a_key_that_is_held_forever() {
    let mut case = Case::good();
    case.row(PLAIN).dedupe_key = Some("forever 1".into());
    case.row(PARENT).dedupe_key = Some("forever 1".into());
    case.note(150, Fact::PurgeSent { jobs: vec![job(PLAIN)] });
    assert_eq!(check(&case.0), Vec::new());
}

#[test]
fn what_a_frozen_process_does_later_is_not_an_overlap() {
    let mut case = Case::good();
    case.0.attempts.retain(|row| row.job != job(PLAIN));
    case.0.attempts.push(ended(job(PLAIN), 1, AttemptOutcome::Lost, None));
    case.0.attempts.push(ended(job(PLAIN), 2, AttemptOutcome::Succeeded, Some(State::Succeeded)));
    case.note(120, Fact::Frozen { pid: 1 });
    case.run(job(PLAIN), 2, 2, (130, Some(160)));
    assert_eq!(check(&case.0), Vec::new());
}

#[test]
fn recovery_lasts_from_the_death_of_the_worker_to_the_next_start() {
    let recovery = recoveries(&Case::good().0);
    assert_eq!((recovery.jobs, recovery.p50, recovery.max), (1, 6.0, 6.0));
}

#[test]
fn the_trace_of_a_violation_has_everything_about_its_job() {
    let mut case = Case::good();
    case.0.jobs.retain(|row| row.id != job(PLAIN));
    let (violation, lines) = trace(&case.0, &check(&case.0)).unwrap();
    assert_eq!((violation.check, violation.job), ("9", Some(job(PLAIN))));
    assert!(
        lines.iter().any(|line| line.contains("acked")) && lines.iter().any(|line| line.contains("history")),
        "{lines:?}"
    );
}
