//! Everything that is known about one job, in the order of its times: the shortest such trace is printed with a violation.

use uuid::Uuid;

use super::Violation;
use super::evidence::Evidence;
use super::index::Index;
use crate::soak::ledger::{Entry, Fact};

/// The trace of the job with the fewest lines, if a violation is about a job.
pub(crate) fn trace(evidence: &Evidence, violations: &[Violation]) -> Option<(Violation, Vec<String>)> {
    let index = Index::new(evidence);
    let traces = violations.iter().take(100).filter_map(|violation| {
        let job = violation.job?;
        Some((violation.clone(), lines(evidence, &index, job)))
    });
    traces.min_by_key(|(_, lines)| lines.len())
}

fn lines(evidence: &Evidence, index: &Index<'_>, job: Uuid) -> Vec<String> {
    let row = index.jobs.get(&job);
    let intent = row.map(|row| row.n);
    let began = evidence.entries.first().map_or(0, |entry| entry.at);
    let mut lines: Vec<String> = evidence
        .entries
        .iter()
        .filter(|entry| is_about(&entry.fact, job, intent))
        .map(|entry: &Entry| {
            let fact = serde_json::to_string(&entry.fact).unwrap_or_default();
            format!("{:>10.3} s  {fact}", entry.at.saturating_sub(began) as f64 / 1e9)
        })
        .collect();
    lines.extend(row.map(|row| format!("  the row: {row:?}")));
    lines.extend(
        index.attempts.get(&job).into_iter().flatten().map(|attempt| format!("  history: {attempt:?}")),
    );
    let places = evidence.unfinished.iter().filter(|(id, _)| *id == job);
    lines.extend(places.map(|(_, place)| format!("  place: {place}")));
    lines
}

fn is_about(fact: &Fact, of: Uuid, number: Option<u64>) -> bool {
    match fact {
        Fact::Sent { intent, .. }
        | Fact::Refused { intent, .. }
        | Fact::Ordered { intent, .. }
        | Fact::Depends { intent, .. } => Some(*intent) == number,
        Fact::Acked { intent, job, .. } => Some(*intent) == number || *job == of,
        Fact::Started { job, .. }
        | Fact::Ended { job, .. }
        | Fact::Committed { job, .. }
        | Fact::Overlapped { job, .. }
        | Fact::CancelSent { job }
        | Fact::Canceled { job, .. }
        | Fact::RetrySent { job }
        | Fact::Retried { job } => *job == of,
        Fact::PurgeSent { jobs } | Fact::Purged { jobs } => jobs.contains(&of),
        _ => false,
    }
}
