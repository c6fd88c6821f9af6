//! Takes jobs back from workers that fell silent. Reads who is overdue, decides for each job as for any other outcome,
//! and applies that under a lock that re-checks the expiry: a worker that speaks up in between keeps its jobs.

use std::collections::HashMap;

use super::Round;
use crate::definition::Policies;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;
use crate::store::keeper::LostJob;
use crate::worker::ending;

const MOST: i32 = 500;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let mut lost = store::keeper::lost_jobs(database, MOST).await?;
    let is_full = lost.len() >= MOST.unsigned_abs() as usize;
    lost.sort_unstable_by_key(|job| (job.fence.tenant, job.fence.job));
    let policies = policies_of(database, &lost).await?;
    lost.retain(|job| policies.contains_key(&job.definition_key));
    if lost.is_empty() {
        return Ok(Round::default());
    }
    let mut workers: Vec<i32> = lost.iter().map(|job| job.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let fences: Vec<_> = lost.iter().map(|job| job.fence).collect();
    let details: Vec<_> =
        lost.iter().map(|job| ending::write_lost(&job.budget, &policies[&job.definition_key])).collect();
    let settled = store::keeper::reap(database, &workers, &fences, &details).await?;
    for &position in &settled.settled {
        let job = &lost[position];
        metrics::counter!("windlass_reaped_total").increment(1);
        tracing::warn!(
            job_id = %job.fence.job, tenant_id = %job.fence.tenant, definition_key = %job.definition_key,
            attempt_no = job.fence.attempt, "took the job back from a silent worker");
    }
    Ok(Round { moved: settled.settled.len() as u64, is_full, next: None })
}

async fn policies_of(database: &Database, lost: &[LostJob]) -> Result<HashMap<String, Policies>> {
    let mut policies = HashMap::new();
    for job in lost {
        if !policies.contains_key(&job.definition_key) {
            policies.insert(
                job.definition_key.clone(),
                store::definition::policies(database, &job.definition_key).await?,
            );
        }
    }
    Ok(policies)
}
