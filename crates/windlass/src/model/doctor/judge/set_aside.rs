//! Rows that the keeper set aside, and rows that it cannot use.

use super::{DatabaseFacts, Finding, fine, warning};

/// The maximum number of rows that are shown one by one; more of them usually have the same cause.
const MAX_PROBLEMS: usize = 20;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    for problem in facts.problems.iter().take(MAX_PROBLEMS) {
        let of =
            problem.tenant_id.map(|tenant| tenant.to_string()).filter(|tenant| *tenant != problem.subject);
        let of = of.map(|tenant| format!(" of tenant {tenant}")).unwrap_or_default();
        let advice = match problem.duty.as_str() {
            "definition" => "fix the field through the API, the web UI or `windlass.define`",
            "schedule" | "dispatch" => "change or delete the trigger",
            "partition" | "retire" if problem.reason.contains(" depends on ") => {
                "drop the object that depends on it, as its owner or as a superuser; new partitions are created anyway"
            }
            "retire" => "nothing is lost; the keeper tries again",
            "partition" => "nothing is lost; if necessary, move the rows and create the partition again",
            "purge_tenants" => "release the legal holds of the tenant",
            "seal" => "find the error in the keeper's log",
            _ => "check the job; cancel or purge it if it cannot be fixed",
        };
        let found = format!("{} {}{of}: {}", problem.duty, problem.subject, problem.reason);
        findings.push(warning("skipped rows", found, advice));
    }
    match facts.problems.len() {
        0 => findings.push(fine("skipped rows", "none: the keeper can process every row")),
        all if all > MAX_PROBLEMS => {
            let found = format!("{} more", all - MAX_PROBLEMS);
            findings.push(warning(
                "skipped rows",
                found,
                "`select * from windlass.problems()` lists all of them",
            ));
        }
        _ => {}
    }
}
