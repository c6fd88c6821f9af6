//! Whether owners, row-level security, policies, privileges, functions and views are those of this release. A restore into a server without
//! our roles loses most of them, and everything still seems to work for a superuser.

use super::{danger, warning};
use crate::model::doctor::Finding;
use crate::model::doctor::catalog::{Deviation, Difference};
use crate::model::doctor::facts::DatabaseFacts;

/// The rest is counted: after a restore there are hundreds.
const MOST_SHOWN: usize = 5;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let mut kinds: Vec<&str> = facts.differences.iter().map(|one| one.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let all = facts.differences.iter().filter(|one| one.kind == kind);
        let (repaired, left): (Vec<&Difference>, Vec<&Difference>) =
            all.partition(|one| one.is_repaired_by_migrate());
        if !repaired.is_empty() {
            findings.push(danger(
                "schema",
                format!("not as this release installed it: {}", list(&repaired)),
                "run `windlass migrate`, which repairs it; after a restore, as the login that restored the database",
            ));
        }
        let (added, changed): (Vec<&Difference>, Vec<&Difference>) =
            left.into_iter().partition(|one| one.deviation == Deviation::Unexpected);
        if !changed.is_empty() {
            findings.push(danger(
                "schema",
                format!("not as this release installed it: {}", list(&changed)),
                "find out who changed it, and undo it as its owner or as a superuser; `windlass migrate --print-sql` shows how it was created",
            ));
        }
        if !added.is_empty() {
            findings.push(warning(
                "schema",
                list(&added),
                "find out who created it, and drop or revoke it if nothing uses it",
            ));
        }
    }
}

fn list(differences: &[&Difference]) -> String {
    let mut shown: Vec<String> = differences.iter().take(MOST_SHOWN).map(|one| one.describe()).collect();
    if differences.len() > MOST_SHOWN {
        shown.push(format!("and {} more", differences.len() - MOST_SHOWN));
    }
    shown.join("; ")
}
