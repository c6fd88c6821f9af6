//! Whether the schema `windlass` is there and ours, and objects of other roles in it. Functions that run as `windlass_owner` have the schema in their search path, so
//! they could run what another role put there. Objects of others that depend on ours keep old partitions and functions from being dropped.

use super::{danger, warning};
use crate::model::doctor::Finding;
use crate::model::doctor::facts::DatabaseFacts;

/// One more than this was read if there are more.
const MOST_SHOWN: usize = 20;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    contents(facts, findings);
    if !facts.dependents.is_empty() {
        let shown: Vec<&str> = facts.dependents.iter().take(MOST_SHOWN).map(String::as_str).collect();
        let more = if facts.dependents.len() > MOST_SHOWN { "; and more" } else { "" };
        findings.push(warning(
            "dependents",
            format!("{}{more}: what something depends on cannot be dropped when it is old", shown.join("; ")),
            "drop these objects, as their owner or as a superuser, or let them use the view `windlass.jobs`",
        ));
    }
    for (found, advice) in &facts.stops_backup {
        findings.push(warning(
            "backup",
            format!("the database has {found}, which stop a backup or a restore by another login"),
            advice,
        ));
    }
    if !facts.server.has_schema {
        findings.push(danger(
            "schema",
            "this database has no windlass schema",
            "run `windlass migrate`, or check the database URL",
        ));
    }
}

fn contents(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let Some(contents) = &facts.contents else { return };
    if !contents.is_ours {
        findings.push(danger(
            "schema",
            format!("the schema windlass belongs to the role {} and not to windlass_owner", contents.owner),
            format!(
                "if {} restored it from a backup, run `windlass migrate` as {0}; if windlass is not installed here, rename it: \
                 `alter schema windlass rename to …`; otherwise find out who changed the owner",
                contents.owner
            ),
        ));
    }
    let foreign = contents.foreign_objects.join("; ");
    if !foreign.is_empty() {
        findings.push(danger(
            "schema",
            "the schema windlass contains objects that do not belong to windlass_owner; they can run with its privileges",
            format!("find out who created them, then remove them as a superuser: `{foreign}`"),
        ));
    }
}
