//! Jobs and other rows that nothing processes, although something should.

use super::{danger, fine, spell, warning};
use crate::model::doctor::Finding;
use crate::model::doctor::facts::{DatabaseFacts, Stuck};

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    findings.extend(facts.stuck.iter().map(stuck_one));
    if !facts.stuck.iter().any(|stuck| !matches!(stuck.kind.as_str(), "paused" | "tenant")) {
        findings.push(fine("stuck jobs", "none"));
    }
}

fn stuck_one(stuck: &Stuck) -> Finding {
    let (jobs, age) = (stuck.jobs, spell(stuck.age_seconds));
    let keeper = "no keeper performs this duty: run `windlass keeper`, or a worker without `--no-keeper`; if one is running, its log shows the error";
    match stuck.kind.as_str() {
        "promote" => danger(
            "stuck jobs",
            format!("{jobs} jobs have been due for up to {age} and were not promoted"),
            keeper,
        ),
        "expire" => danger(
            "stuck jobs",
            format!("{jobs} deadlines passed up to {age} ago and were not enforced"),
            keeper,
        ),
        "fold" => warning("stuck jobs", format!("{jobs} counter rows have not been folded"), keeper),
        "reap" => danger(
            "stuck jobs",
            format!("{jobs} jobs of {}, which has been lost for {age}, were not recovered", stuck.name),
            keeper,
        ),
        "unblock" => danger(
            "stuck jobs",
            format!("{jobs} jobs ended up to {age} ago and the jobs that depend on them were not unblocked"),
            keeper,
        ),
        "unknown run" => warning(
            "stuck jobs",
            format!(
                "{} is active and holds {jobs} more jobs than it reports as running, for up to {age}",
                stuck.name
            ),
            "if this persists, stop that worker: its jobs are recovered immediately; please report a bug",
        ),
        "tenant" => warning(
            "deleted tenants",
            format!("the deletion of a tenant is blocked: {}", stuck.name),
            "release its legal holds, or find the error in the keeper's log; other tenants are not affected",
        ),
        "prune" => warning(
            "retention",
            format!("no retention rule was applied for {age}, and {jobs} are overdue"),
            keeper,
        ),
        "retention" => warning(
            "retention",
            format!("{jobs} jobs of {} should have been deleted, the first one {age} ago", stuck.name),
            "`windlass retention list` shows what holds them back; if nothing does, and a keeper runs, increase its `prune_share`",
        ),
        "partition" => warning(
            "partitions",
            format!("the partition of tomorrow ({}) does not exist yet", stuck.name),
            keeper,
        ),
        "paused" => warning(
            "paused queues",
            format!("queue {} has been paused for {age}; {}", stuck.name, queued(jobs)),
            format!("run `windlass queues resume {}` to resume it", stuck.name),
        ),
        _ => danger(
            "stuck jobs",
            format!(
                "{} for {} and no active worker has a handler for this definition",
                queued(jobs),
                stuck.name
            ),
            format!(
                "start a worker with a handler for `{}`, or cancel the jobs in each tenant: `windlass jobs cancel --definition {} --tenant TENANT`",
                stuck.name, stuck.name
            ),
        ),
    }
}

fn queued(jobs: i64) -> String {
    if jobs == 1 { "1 job is queued".to_owned() } else { format!("{jobs} jobs are queued") }
}
