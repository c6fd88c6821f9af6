//! Rows that the keeper set aside, and rows that it cannot use.

use super::{DatabaseFacts, Finding, fine, warning};

/// What is set aside is shown one by one up to this many: more of them have one cause.
const MOST_TROUBLES: usize = 20;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    for trouble in facts.troubles.iter().take(MOST_TROUBLES) {
        let of = trouble.tenant_id.map(|tenant| format!(" of tenant {tenant}")).unwrap_or_default();
        let advice = match trouble.duty.as_str() {
            "definition" => {
                "correct the field: change the definition through the API, the web pages or `windlass.define`"
            }
            "schedule" | "dispatch" => "correct the trigger: change or delete it",
            "partition" => "nothing is lost; where it matters, move the rows and make the partition again",
            _ => "look at the job; cancel or purge it if it cannot be mended",
        };
        let found = format!("{} {}{of}: {}", trouble.duty, trouble.subject, trouble.reason);
        findings.push(warning("set aside", found, advice));
    }
    match facts.troubles.len() {
        0 => findings.push(fine("set aside", "nothing")),
        all if all > MOST_TROUBLES => {
            let found = format!("{} more", all - MOST_TROUBLES);
            findings.push(warning(
                "set aside",
                found,
                "`select * from windlass.troubles()` lists all of them",
            ));
        }
        _ => {}
    }
}
