//! Whether the schema `windlass` is there and ours, and objects of other roles in it. Functions that run as `windlass_owner` have the schema in their search path, so
//! they could run what another role put there.

use super::danger;
use crate::model::doctor::Finding;
use crate::model::doctor::facts::DatabaseFacts;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    contents(facts, findings);
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
