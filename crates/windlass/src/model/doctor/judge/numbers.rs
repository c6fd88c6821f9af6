//! Lanes, workers and gates have 32-bit numbers, which are never used twice.

use super::{danger, warning};
use crate::model::doctor::Finding;
use crate::model::doctor::facts::DatabaseFacts;

/// At the highest rate that was measured, the second half lasts for months …
const WARN_AT: f64 = 0.5;
/// … and the last tenth for weeks.
const DANGER_AT: f64 = 0.9;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    for used in facts.numbers.iter().filter(|used| used.share >= WARN_AT) {
        let found = format!(
            "{} % of the numbers of windlass.{} are used",
            (used.share * 100.0) as u32,
            used.relation
        );
        let advice = "workers that register under a new name for each job, or queues that are created and abandoned, use them up: \
                      reuse names, and plan an export into a new installation";
        findings.push(if used.share >= DANGER_AT {
            danger("numbers", found, advice)
        } else {
            warning("numbers", found, advice)
        });
    }
}
