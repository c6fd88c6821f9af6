//! Whether the jobs that exist are those that were asked for, each in one place with one end.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;
use windlass::job::{AttemptOutcome, State};

use super::Violation;
use super::evidence::{Evidence, JobRow};
use super::index::{Index, IntentFacts, RunEnd, Span};
use crate::soak::work::{BRIEF, CHILD, EFFECT, EVENT, FOREVER, TICK, WINDOW, WINDOW_SECONDS};

pub(super) fn check(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    every_acknowledged_job_exists(index, found);
    every_job_was_asked_for(evidence, index, found);
    every_key_has_one_job(evidence, index, found);
    no_window_has_two_jobs(index, found);
    every_job_has_one_end(evidence, index, found);
    what_follows_a_job_exists_if_it_succeeded(evidence, index, found);
    every_effect_is_a_success(evidence, index, found);
}

/// Invariant 9.
fn every_acknowledged_job_exists(index: &Index<'_>, found: &mut Vec<Violation>) {
    for (number, intent) in &index.intents {
        let Some(job) = intent.created() else { continue };
        let is_there = index.jobs.get(&job);
        if is_there.is_some_and(|row| row.n != *number) {
            found.push(Violation::of("9", job, format!("the job of intent {number} has another payload")));
        }
        if is_there.is_none() && !may_be_absent(index, intent, job) {
            found.push(Violation::of(
                "9",
                job,
                format!("intent {number} was acknowledged, and its job does not exist"),
            ));
        }
    }
}

/// Whether its deletion was requested, by somebody or by the retention of its definition.
fn may_be_absent(index: &Index<'_>, intent: &IntentFacts, job: Uuid) -> bool {
    let has_succeeded = || {
        let runs = index.runs.get(&job).into_iter().flatten();
        // The end of a frozen run is not known.
        runs.into_iter()
            .any(|run| matches!(run.end, Some(RunEnd::Ended { is_success: true } | RunEnd::Frozen)))
    };
    index.purge_sent.contains(&job)
        || index.deleted_tenants.contains(&intent.tenant)
        || (intent.definition == BRIEF && has_succeeded())
}

/// Invariant 10.
fn every_job_was_asked_for(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    let by_trigger: HashSet<Uuid> = evidence
        .fires
        .iter()
        .filter_map(|fire| fire.job)
        .chain(evidence.events.iter().flat_map(|event| event.fired.iter().copied()))
        .collect();
    for job in &evidence.jobs {
        let problem = match job.definition.as_str() {
            EVENT | TICK if by_trigger.contains(&job.id) => None,
            EVENT | TICK => Some("no trigger has recorded it".to_owned()),
            CHILD if job.parent.is_some() => None,
            CHILD => Some("it follows no job".to_owned()),
            _ => match index.intents.get(&job.n) {
                None => Some(format!("intent {} was never sent", job.n)),
                Some(intent) if intent.is_refused => {
                    Some(format!("intent {} was refused or rolled back", job.n))
                }
                Some(intent) if intent.way == "sql" && !evidence.sent.contains(&job.n) => {
                    Some(format!("the row of intent {}'s transaction does not exist", job.n))
                }
                Some(_) => None,
            },
        };
        found.extend(problem.map(|problem| Violation::of("10", job.id, problem)));
    }
    // And the other way round: the row of the application is committed, and its job is not.
    for (number, intent) in index.intents.iter().filter(|(number, _)| evidence.sent.contains(number)) {
        let job = intent.acked.first().map(|(job, _)| *job);
        let is_explained = index.of_intent.contains_key(number)
            || intent.dedupe_key.is_some()
            || intent.definition == BRIEF
            || job.is_none_or(|job| may_be_absent(index, intent, job) || intent.created().is_none())
                && !intent.acked.is_empty();
        // An unknown result can have been deleted by nobody: no operator knows the job.
        if !is_explained {
            let text = format!("the row of intent {number}'s transaction exists, and its job does not");
            found.push(Violation { check: "9", job, text });
        }
    }
}

/// Invariants 21 and 22.
fn every_key_has_one_job(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    for (number, jobs) in &index.of_intent {
        let has_key = index.intents.get(number).is_some_and(|intent| intent.has_key);
        if jobs.len() > 1 {
            let check = if has_key { "21" } else { "10" };
            found.push(Violation::of(check, jobs[1].id, format!("intent {number} has {} jobs", jobs.len())));
        }
    }
    for (number, intent) in
        index.intents.iter().filter(|(_, intent)| intent.has_key && intent.acked.len() > 1)
    {
        let ids: HashSet<Uuid> = intent.acked.iter().map(|(job, _)| *job).collect();
        if ids.len() > 1 {
            let text = format!("the repeated request of intent {number} returned {} jobs", ids.len());
            found.push(Violation { check: "21", job: intent.created(), text });
        }
    }
    let mut forever: HashMap<(Uuid, &str), HashSet<Uuid>> = HashMap::new();
    let is_forever = |key: &&str| key.starts_with(FOREVER);
    for job in &evidence.jobs {
        if let Some(key) = job.dedupe_key.as_deref().filter(is_forever) {
            forever.entry((job.tenant, key)).or_default().insert(job.id);
        }
    }
    for intent in index.intents.values() {
        let key = intent.dedupe_key.as_deref().filter(is_forever);
        if let (Some(key), Some(job)) = (key, intent.created()) {
            forever.entry((intent.tenant, key)).or_default().insert(job);
        }
    }
    // An operator's retry releases the key, and so does a deletion by hand.
    let is_released = |jobs: &HashSet<Uuid>| jobs.iter().any(|job| index.is_disturbed(*job));
    for ((_, key), jobs) in forever.into_iter().filter(|(_, jobs)| jobs.len() > 1 && !is_released(jobs)) {
        let job = jobs.iter().max().copied();
        found.push(Violation { check: "22", job, text: format!("{} jobs with the key {key}", jobs.len()) });
    }
}

/// Invariant 23. Two enqueues were accepted within the window for certain if the first was sent less than a window before the
/// acknowledgment of the last.
fn no_window_has_two_jobs(index: &Index<'_>, found: &mut Vec<Violation>) {
    let mut of_key: HashMap<(Uuid, &str), Vec<Span>> = HashMap::new();
    for intent in index.intents.values() {
        let key = intent.dedupe_key.as_deref().filter(|key| key.starts_with(WINDOW));
        // A repeated request may have been accepted long before the acknowledgment, or long after it was first sent.
        if let (Some(key), Some(job), [_]) = (key, intent.created(), intent.acked.as_slice()) {
            of_key.entry((intent.tenant, key)).or_default().push((intent.sent_at, intent.acked_at, job));
        }
    }
    for ((_, key), mut accepted) in of_key {
        accepted.sort_unstable();
        let is_too_soon = |pair: &&[Span]| {
            pair[0].1.max(pair[1].1).saturating_sub(pair[0].0) < WINDOW_SECONDS * 1_000_000_000
        };
        for pair in accepted.windows(2).filter(is_too_soon) {
            if index.is_disturbed(pair[0].2) {
                continue;
            }
            let text = format!("it was accepted within the window of job {} of the key {key}", pair[0].2);
            found.push(Violation::of("23", pair[1].2, text));
        }
    }
}

/// Invariants 2, 4 and 11.
fn every_job_has_one_end(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    let mut places: HashMap<Uuid, Vec<&str>> = HashMap::new();
    for (job, place) in &evidence.unfinished {
        places.entry(*job).or_default().push(place);
        if !index.jobs.contains_key(job) {
            found.push(Violation::of("2", *job, format!("it is {place}, and has no body")));
        }
    }
    for job in &evidence.jobs {
        let waiting = places.get(&job.id).map_or(&[][..], Vec::as_slice);
        let attempts = index.attempts.get(&job.id).map_or(&[][..], Vec::as_slice);
        let ends = attempts.iter().filter(|row| row.status.is_some()).count();
        if waiting.len() + ends != 1 {
            let text = format!(
                "it is in {} places ({}), with {ends} final statuses",
                waiting.len(),
                waiting.join(", ")
            );
            found.push(Violation::of("2", job.id, text));
        }
        if let [place] = waiting {
            found.push(Violation::of("11", job.id, format!("it is still {place}")));
        }
        let last = attempts.iter().map(|row| row.attempt).max();
        let is_last = |row: &&&super::evidence::AttemptRow| row.attempt == 0 || Some(row.attempt) == last;
        let is_retried = index.retry_sent.contains_key(&job.id);
        if ends == 1
            && !is_retried
            && !attempts.iter().filter(|row| row.status.is_some()).any(|row| is_last(&row))
        {
            found.push(Violation::of("4", job.id, "an attempt follows the one with the final status"));
        }
    }
}

/// Invariant 17.
fn what_follows_a_job_exists_if_it_succeeded(
    evidence: &Evidence,
    index: &Index<'_>,
    found: &mut Vec<Violation>,
) {
    let mut children: HashMap<Uuid, u64> = HashMap::new();
    for job in evidence.jobs.iter().filter(|job| job.definition == CHILD) {
        *children.entry(job.parent.unwrap_or_default()).or_default() += 1;
    }
    for job in &evidence.jobs {
        let is = children.get(&job.id).copied().unwrap_or_default();
        let successes = successes(index, job);
        if is != job.children * successes {
            let text =
                format!("{is} jobs follow it, {} are expected after {successes} successes", job.children);
            found.push(Violation::of("17", job.id, text));
        }
    }
}

fn successes(index: &Index<'_>, job: &JobRow) -> u64 {
    let attempts = index.attempts.get(&job.id).into_iter().flatten();
    attempts.filter(|row| row.outcome == Some(AttemptOutcome::Succeeded)).count() as u64
}

/// Invariant 16.
fn every_effect_is_a_success(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    let of_effect = |job: Uuid| index.jobs.get(&job).is_some_and(|job| job.definition == EFFECT);
    let succeeded: HashSet<(Uuid, i32)> = evidence
        .attempts
        .iter()
        .filter(|row| row.outcome == Some(AttemptOutcome::Succeeded) && of_effect(row.job))
        .map(|row| (row.job, row.attempt))
        .collect();
    for (job, attempt) in evidence.effects.iter().filter(|effect| of_effect(effect.0)) {
        if !succeeded.contains(&(*job, *attempt)) {
            found.push(Violation::of(
                "16",
                *job,
                format!("attempt {attempt} did not succeed, and its write is visible"),
            ));
        }
    }
    for (job, attempt) in succeeded.difference(&evidence.effects) {
        found.push(Violation::of(
            "16",
            *job,
            format!("attempt {attempt} succeeded, and its write is not visible"),
        ));
    }
}

/// The final status of a job.
pub(super) fn status(index: &Index<'_>, job: Uuid) -> Option<State> {
    index.attempts.get(&job)?.iter().find_map(|row| row.status)
}
