//! The queue as lines of text, once from the reference and once from the tables. They must be equal after every step.

use std::collections::BTreeMap;

use windlass::job::State;

use super::definition::DEFINITIONS;
use super::operation::TICK;
use super::reference::{LANES, Place, Reference, TENANTS, WORKERS, tenant_of};

/// Every row about a job, as text. Jobs are named by their number in the reference, instants by the ticks until them. Takes the
/// tenants, the workers and the lanes, each in the reference's order.
pub(super) const LOOK: &str = include_str!("look.sql");

/// States that no sequence of operations may reach.
pub(super) const SOUND: &str = include_str!("sound.sql");

pub(super) fn expected(reference: &Reference) -> Vec<String> {
    let mut lines: Vec<String> = reference.made().map(|job| job_line(reference, job)).collect();
    for lane in 0..LANES {
        let line = reference.in_line(lane);
        if !line.is_empty() {
            let names: Vec<String> = line.iter().map(usize::to_string).collect();
            lines.push(format!("lane {lane}: {}", names.join(" ")));
        }
    }
    for (&(tenant, key), slot) in &reference.dedupe {
        let until = slot.until.map_or("ever".to_owned(), |until| (until - reference.now).to_string());
        lines.push(format!(
            "dedupe k{key} of {tenant}: {} for {until} active={}",
            slot.job, slot.released_at_end
        ));
    }
    for (&(job, only_unstarted), at) in &reference.expiry {
        lines.push(format!("expiry of {job} in {} unstarted={only_unstarted}", at - reference.now));
    }
    for worker in 0..WORKERS {
        let (generation, lease) = reference.workers[worker];
        lines.push(format!("worker {worker}.{generation} {lease:?}"));
    }
    lines.extend(count_lines(reference));
    lines.sort_unstable();
    lines
}

fn job_line(reference: &Reference, job: usize) -> String {
    let it = &reference.jobs[job];
    let place = match &it.place {
        Place::Nowhere => "nowhere".to_owned(),
        Place::Queued(_) => "queued".to_owned(),
        Place::Running { worker, token, is_canceled } => {
            let generation = reference.workers[*worker].0;
            format!("running by {worker}.{generation} token={token} canceled={is_canceled}")
        }
        Place::Scheduled(due) => format!("scheduled in {}", due.0 - reference.now),
        Place::Blocked(_) => "blocked".to_owned(),
        Place::Ended { state, reason, by_attempt } => {
            format!("{state} by {by_attempt} reason={}", reason.unwrap_or("none"))
        }
    };
    // The counters of a job that ended, or is blocked, are not kept.
    let counters = match it.place {
        Place::Queued(_) | Place::Running { .. } | Place::Scheduled(_) => {
            format!("{}/{}/{}", it.failures, it.lost, it.snoozes)
        }
        Place::Nowhere | Place::Blocked(_) | Place::Ended { .. } => "0/0/0".to_owned(),
    };
    let holds = it.holds_dedupe && !matches!(it.place, Place::Ended { .. });
    let outcomes: Vec<&str> = it.outcomes.iter().map(|outcome| outcome.as_str()).collect();
    let (attempt, outcomes) = (it.attempt, outcomes.join(","));
    format!("job {job} {place} attempt={attempt} counted={counters} holds={holds} ended=[{outcomes}]")
}

fn count_lines(reference: &Reference) -> impl Iterator<Item = String> {
    let mut counts: BTreeMap<(usize, usize, State), usize> = BTreeMap::new();
    for job in reference.made() {
        let it = &reference.jobs[job];
        if let Some(state) = it.place.state() {
            *counts.entry((tenant_of(job), it.request.definition, state)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((tenant, definition, state), count)| {
        format!("count {} of {tenant}: {count} {state}", DEFINITIONS[definition].key)
    })
}

const _: () = assert!(TENANTS == 2 && TICK.as_secs() == 3600, "look.sql supports these");
