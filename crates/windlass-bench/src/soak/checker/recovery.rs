//! How long it took until a job of a worker that was killed or frozen started again. Reported, not required: other faults hit meanwhile.

use super::index::{Index, RunEnd};
use crate::percentile::percentile;

/// In seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recovery {
    pub(crate) jobs: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

pub(super) fn measure(index: &Index<'_>) -> Recovery {
    let mut seconds = Vec::new();
    for runs in index.runs.values() {
        for (number, run) in runs.iter().enumerate() {
            let (Some(RunEnd::Died | RunEnd::Frozen), Some(to)) = (run.end, run.to) else { continue };
            let next = runs[number + 1..].iter().find(|next| next.attempt > run.attempt);
            seconds.extend(next.map(|next| next.from.saturating_sub(to) as f64 / 1e9));
        }
    }
    seconds.sort_by(f64::total_cmp);
    let of = |share| percentile(&seconds, share).unwrap_or_default();
    let max = seconds.last().copied().unwrap_or_default();
    Recovery { jobs: seconds.len(), p50: of(0.5), p99: of(0.99), max }
}
