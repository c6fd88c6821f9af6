//! Whether counters, schedules, events and the audit trail are what the rows and the ledger say, and whether nothing is left behind.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::Violation;
use super::evidence::Evidence;
use super::index::{EmitState, Index};
use crate::soak::work::{EVENT, TICK};

pub(super) fn check(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    for (name, value, rows) in evidence.counters.iter().filter(|(_, value, rows)| value != rows) {
        found.push(Violation::general("48", format!("{name} is {value}, and there are {rows} rows")));
    }
    found.extend(evidence.leftovers.iter().map(|text| Violation::general("left", text)));
    found.extend(evidence.orphans.iter().map(|text| Violation::general("20", text)));
    found.extend(evidence.audit_faults.iter().map(|text| Violation::general("49", text)));
    every_action_is_audited(evidence, index, found);
    every_instant_is_decided_once(evidence, found);
    every_event_starts_one_job(evidence, index, found);
}

/// Invariant 49: a row for each acknowledged change, and not more rows than requests.
fn every_action_is_audited(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    // A second request of a running job changes nothing, and writes no row.
    let canceled = index.canceled.keys().map(|job| (*job, 1)).collect();
    for (action, acked, sent) in
        [("job.cancel", &canceled, &index.cancel_sent), ("job.retry", &index.retried, &index.retry_sent)]
    {
        for (job, sent) in sent {
            let rows = evidence.audited.get(&(action.to_owned(), *job)).copied().unwrap_or_default();
            let acked: &HashMap<Uuid, u64> = acked;
            let acked = acked.get(job).copied().unwrap_or_default();
            if rows < acked || rows > *sent {
                let text = format!("{rows} rows of {action}, {acked} acknowledged of {sent} requests");
                found.push(Violation::of("49", *job, text));
            }
        }
    }
}

/// Invariant 35.
fn every_instant_is_decided_once(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut decided: HashMap<(Uuid, Timestamp), u32> = HashMap::new();
    for fire in &evidence.fires {
        *decided.entry((fire.trigger, fire.due)).or_default() += 1;
    }
    for ((trigger, due), times) in decided.iter().filter(|(_, times)| **times > 1) {
        found.push(Violation::general("35", format!("instant {due} of {trigger} was decided {times} times")));
    }
    for (trigger, due) in evidence.due.iter().filter(|due| !decided.contains_key(due)) {
        found.push(Violation::general("35", format!("instant {due} of {trigger} was not decided")));
    }
    let jobs: HashSet<Uuid> =
        evidence.jobs.iter().filter(|job| job.definition == TICK).map(|job| job.id).collect();
    for job in evidence.fires.iter().filter_map(|fire| fire.job).filter(|job| !jobs.contains(job)) {
        found.push(Violation::of("35", job, "an instant fired, and its job does not exist"));
    }
}

fn every_event_starts_one_job(evidence: &Evidence, index: &Index<'_>, found: &mut Vec<Violation>) {
    let jobs: HashSet<Uuid> =
        evidence.jobs.iter().filter(|job| job.definition == EVENT).map(|job| job.id).collect();
    let mut seen: HashSet<u64> = HashSet::new();
    for event in &evidence.events {
        let n = event.n;
        if !seen.insert(n) {
            found.push(Violation::general("events", format!("event {n} exists twice")));
        }
        match index.emitted.get(&n) {
            None => found.push(Violation::general("events", format!("event {n} was never emitted"))),
            Some(EmitState::Refused) => {
                found.push(Violation::general("events", format!("event {n} was rolled back, and exists")));
            }
            Some(EmitState::Acked | EmitState::Unknown) => {}
        }
        let is_there = event.fired.iter().filter(|job| jobs.contains(job)).count();
        if event.is_pending || event.fired.len() != 1 || is_there != 1 {
            let text = format!("event {n} started {} jobs, of which {is_there} exist", event.fired.len());
            found.push(Violation::general("events", text));
        }
    }
    for (n, _) in index.emitted.iter().filter(|(n, state)| **state == EmitState::Acked && !seen.contains(n)) {
        found.push(Violation::general("events", format!("event {n} was acknowledged, and does not exist")));
    }
    for n in evidence.emitted.iter().filter(|n| !seen.contains(n)) {
        found.push(Violation::general(
            "events",
            format!("the transaction of event {n} exists without the event"),
        ));
    }
}
