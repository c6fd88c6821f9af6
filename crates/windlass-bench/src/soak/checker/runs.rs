//! Whether the runs that the workers noted, and the attempts in the database, were allowed.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;
use windlass::job::{AttemptOutcome, State};

use super::Violation;
use super::evidence::Evidence;
use super::index::{Index, Run, Span};
use super::jobs::status;
use crate::soak::ledger::{Fact, Kind};
use crate::soak::work::{BRIEF, CONCURRENCY, LIMITED, MAX_LOST, MAX_RUNNING, WINDOW};

pub(super) fn check(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    every_start_is_an_attempt(evidence, index, found);
    every_attempt_is_within_its_budget(evidence, index, found);
    no_two_runs_overlap(evidence, index, found);
    no_key_has_two_active_jobs(evidence, index, found);
    the_limit_is_never_exceeded(evidence, index, found);
    every_order_is_kept(index, found);
    no_job_starts_too_early(evidence, index, found);
    every_cancel_is_final(index, found);
}

/// Invariants 3 and 15.
fn every_start_is_an_attempt(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    for (job, runs) in &index.runs {
        let attempts: HashSet<i32> =
            index.attempts.get(job).into_iter().flatten().map(|row| row.attempt).collect();
        let mut started: HashSet<i32> = HashSet::new();
        for run in runs {
            // An HTTP request can arrive twice, because its response can be lost.
            if !started.insert(run.attempt) && run.kind != Kind::Http {
                found.push(Violation::of("15", *job, format!("attempt {} was started twice", run.attempt)));
            }
            if index.jobs.contains_key(job)
                && !attempts.contains(&run.attempt)
                && evidence.unfinished.iter().all(|(id, _)| id != job)
            {
                let text = format!("attempt {} was started, and is not in the history", run.attempt);
                found.push(Violation::of("3", *job, text));
            }
        }
    }
    for (job, rows) in &index.attempts {
        let numbers: Vec<i32> = rows.iter().map(|row| row.attempt).filter(|attempt| *attempt > 0).collect();
        let is_unbroken = numbers.iter().copied().eq(1..=i32::try_from(numbers.len()).unwrap_or(i32::MAX));
        if !is_unbroken {
            found.push(Violation::of("3", *job, format!("its attempts are {numbers:?}")));
        }
        let is_ended = |row: &super::evidence::AttemptRow| (row.attempt == 0) == row.outcome.is_none();
        if !rows.iter().all(|row| is_ended(row)) {
            found.push(Violation::of("15", *job, "an attempt has no outcome"));
        }
    }
    for entry in &evidence.entries {
        let Fact::Committed { job, attempt } = entry.fact else { continue };
        let row = index.attempts.get(&job).into_iter().flatten().find(|row| row.attempt == attempt);
        if row.is_some_and(|row| row.outcome != Some(AttemptOutcome::Succeeded)) {
            found.push(Violation::of(
                "15",
                job,
                format!("attempt {attempt} was committed by its handler, and did not succeed"),
            ));
        }
    }
}

/// Invariants 13 and 14. An operator's retry resets the counters.
fn every_attempt_is_within_its_budget(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    for job in &evidence.jobs {
        let budgets = 1 + index.retry_sent.get(&job.id).copied().unwrap_or_default();
        let outcomes = || index.attempts.get(&job.id).into_iter().flatten().filter_map(|row| row.outcome);
        let counted = outcomes()
            .filter(|outcome| {
                matches!(outcome, AttemptOutcome::Failed | AttemptOutcome::Timeout | AttemptOutcome::Lost)
            })
            .count() as u64;
        let lost = outcomes().filter(|outcome| *outcome == AttemptOutcome::Lost).count() as u64;
        if counted > u64::from(job.max_attempts) * budgets {
            let text = format!("{counted} counted attempts of {}, {budgets} times", job.max_attempts);
            found.push(Violation::of("13", job.id, text));
        }
        if lost > u64::from(MAX_LOST) * budgets {
            found.push(Violation::of(
                "14",
                job.id,
                format!("{lost} lost attempts of {MAX_LOST}, {budgets} times"),
            ));
        }
    }
}

/// Invariant 18. Runs of pull workers and HTTP endpoints are not supervised, so theirs may overlap after a lost lease.
fn no_two_runs_overlap(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    for (job, runs) in &index.runs {
        let supervised: Vec<&Run> = runs.iter().filter(|run| run.kind == Kind::Rust).collect();
        for pair in supervised.windows(2) {
            if pair[0].to.is_some_and(|to| to > pair[1].from) && !index.purge_sent.contains(job) {
                let text = format!(
                    "attempt {} started before attempt {} had ended",
                    pair[1].attempt, pair[0].attempt
                );
                found.push(Violation::of("18", *job, text));
            }
        }
    }
    for entry in &evidence.entries {
        if let Fact::Overlapped { job, attempt } = entry.fact {
            found.push(Violation::of(
                "18",
                job,
                format!("attempt {attempt} found another process of the job"),
            ));
        }
    }
}

/// Invariant 22: from the first start to the last end of a job, no other job of its key runs.
fn no_key_has_two_active_jobs(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    let mut of_key: BTreeMap<(Uuid, &str), Vec<Span>> = BTreeMap::new();
    for job in evidence.jobs.iter().filter(|job| !index.is_disturbed(job.id)) {
        // A key that is held for a window is free after it, even if its job has not ended.
        let key = job.dedupe_key.as_ref().filter(|key| !key.starts_with(WINDOW));
        if let (Some(key), Some((from, to))) = (key, index.span(job.id)) {
            of_key.entry((job.tenant, key)).or_default().push((from, to, job.id));
        }
    }
    for ((_, key), mut spans) in of_key {
        spans.sort_unstable();
        for pair in spans.windows(2).filter(|pair| pair[0].1 > pair[1].0) {
            found.push(Violation::of(
                "22",
                pair[1].2,
                format!("it ran while job {} of the key {key} did", pair[0].2),
            ));
        }
    }
}

/// Invariants 25, 27 and 28: by a sweep over the runs, and by what snapshots of the database showed.
fn the_limit_is_never_exceeded(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    let is_limited = |run: &&Run| index.jobs.get(&run.job).is_some_and(|row| row.definition == LIMITED);
    let limited = index.runs.values().flatten().filter(is_limited);
    let is_kept = |run: &&Run| run.kind == Kind::Rust && !index.purge_sent.contains(&run.job);
    for job in beyond(MAX_RUNNING as usize, limited.filter(is_kept)) {
        found.push(Violation::of(
            "25",
            job,
            format!("it started while {MAX_RUNNING} jobs of its definition ran"),
        ));
    }
    let mut of_worker: HashMap<u32, Vec<&Run>> = HashMap::new();
    for run in index.runs.values().flatten().filter(|run| run.kind == Kind::Rust) {
        of_worker.entry(run.pid).or_default().push(run);
    }
    for runs in of_worker.into_values() {
        for job in beyond(CONCURRENCY, runs.into_iter()) {
            found.push(Violation::of(
                "28",
                job,
                format!("it started while its worker ran {CONCURRENCY} jobs"),
            ));
        }
    }
    found.extend(evidence.snapshots.iter().map(|(check, text)| Violation::general(check, text)));
}

/// The jobs that started while as many runs as allowed had not ended: a sweep over their starts and ends.
fn beyond<'a>(limit: usize, runs: impl Iterator<Item = &'a Run>) -> Vec<Uuid> {
    let mut changes: Vec<(u64, bool, Uuid)> = runs
        .flat_map(|run| [(run.from, true, run.job), (run.to.unwrap_or(run.from), false, run.job)])
        .collect();
    // An end before a start of the same instant.
    changes.sort_unstable();
    let (mut running, mut found) = (0_usize, Vec::new());
    for (_, is_start, job) in changes {
        if is_start && running >= limit {
            found.push(job);
        }
        running = if is_start { running + 1 } else { running.saturating_sub(1) };
    }
    found
}

/// Invariant 31: of two acknowledged jobs with one key, the one that was sent first has its last run before the first run of the other.
/// Invariant 1: the same for a job and those that it depends on.
fn every_order_is_kept(index: &Index<'_>, found: &mut Vec<Violation>) {
    let mut last: HashMap<(Uuid, &str), (u64, Uuid)> = HashMap::new();
    for intent in index.intents.values() {
        let Some(job) = intent.created().filter(|job| !index.is_disturbed(*job)) else { continue };
        let Some((from, to)) = index.span(job) else { continue };
        if let Some(key) = intent.ordering_key.as_deref() {
            let before = last.entry((intent.tenant, key)).or_insert((0, job));
            if before.0 > from {
                let text =
                    format!("it started before job {}, the previous one of its key, had ended", before.1);
                found.push(Violation::of("31", job, text));
            }
            *before = (*before).max((to, job));
        }
        for needed in intent.depends_on.iter().filter(|needed| !index.is_disturbed(**needed)) {
            if index.span(*needed).is_some_and(|(_, ended)| ended > from) {
                found.push(Violation::of("1", job, format!("it started before job {needed} had ended")));
            }
        }
    }
}

/// Invariant 32, by the clock of the database.
fn no_job_starts_too_early(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    for job in &evidence.jobs {
        let rows = index.attempts.get(&job.id).into_iter().flatten();
        let first = rows.filter_map(|row| row.started_at).min();
        if let (Some(due), Some(first)) = (job.scheduled_for, first)
            && first < due
            && !index.retry_sent.contains_key(&job.id)
        {
            found.push(Violation::of("32", job.id, format!("it is due at {due} and started at {first}")));
        }
    }
}

/// Invariants 40 and 41.
fn every_cancel_is_final(index: &Index<'_>, found: &mut Vec<Violation>) {
    for (job, cancels) in &index.canceled {
        if index.retry_sent.contains_key(job) {
            continue;
        }
        for (at, was_running) in cancels {
            let late = index.runs.get(job).into_iter().flatten().find(|run| run.from > *at);
            if let Some(run) = late.filter(|_| !was_running) {
                found.push(Violation::of(
                    "40",
                    *job,
                    format!("attempt {} started after its cancel", run.attempt),
                ));
            }
        }
        let is_kept = index.jobs.get(job).is_some_and(|row| row.definition != BRIEF);
        let status = status(index, *job);
        if is_kept && status.is_some() && status != Some(State::Canceled) {
            found.push(Violation::of("40", *job, format!("it was canceled, and ended as {status:?}")));
        }
    }
}
