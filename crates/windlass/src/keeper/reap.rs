//! Takes jobs back from workers that fell silent. Reads who is overdue, decides for each job as for any other outcome,
//! and applies that under a lock that re-checks the expiry: a worker that speaks up in between keeps its jobs.
//!
//! A worker of ours holds all its jobs under one lease; a job that runs in a pull worker has a lease of its own, and may also
//! have used up its time, which nobody but the reaper can end.

use std::collections::HashMap;

use super::Round;
use crate::attempt::ending;
use crate::error::Result;
use crate::model::definition::Policies;
use crate::model::job::settle::Outcome;
use crate::model::job::state::{AttemptOutcome, State};
use crate::store;
use crate::store::database::Database;
use crate::store::keeper::LostJob;
use crate::telemetry::Meters;

const MOST: i32 = 500;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    // First those with a lease of their own: it tells more about them than their worker's.
    let pulled = reap_pulled(database).await?;
    let ours = reap_workers(database).await?;
    Ok(Round { moved: ours.moved + pulled.moved, is_full: ours.is_full || pulled.is_full, next: None })
}

async fn reap_workers(database: &Database) -> Result<Round> {
    let mut lost = store::keeper::lost_jobs(database, MOST).await?;
    let is_full = lost.len() >= MOST.unsigned_abs() as usize;
    lost.sort_unstable_by_key(|job| (job.fence.tenant, job.fence.job));
    let policies = policies_of(database, lost.iter()).await?;
    if lost.is_empty() {
        return Ok(Round::default());
    }
    let mut workers: Vec<i32> = lost.iter().map(|job| job.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let fences: Vec<_> = lost.iter().map(|job| job.fence).collect();
    let (details, ends): (Vec<String>, Vec<End>) =
        lost.iter().map(|job| write(job, &policies[&job.definition_key], Outcome::Lost)).unzip();
    let settled = store::keeper::reap(database, &workers, &fences, &details).await?;
    for &position in &settled.settled {
        tell(&lost[position], ends[position]);
    }
    Ok(Round { moved: settled.settled.len() as u64, is_full, next: None })
}

async fn reap_pulled(database: &Database) -> Result<Round> {
    let lost = store::pull::lost_jobs(database, MOST).await?;
    let is_full = lost.len() >= MOST.unsigned_abs() as usize;
    let policies = policies_of(database, lost.iter().map(|(job, _)| job)).await?;
    if lost.is_empty() {
        return Ok(Round::default());
    }
    let fences: Vec<_> = lost.iter().map(|(job, _)| job.fence).collect();
    let (details, ends): (Vec<String>, Vec<End>) = lost
        .iter()
        .map(|(job, is_timed_out)| {
            let outcome = if *is_timed_out { Outcome::TimedOut } else { Outcome::Lost };
            write(job, &policies[&job.definition_key], outcome)
        })
        .unzip();
    let settled = store::pull::reap(database, &fences, &details).await?;
    for &position in &settled.settled {
        tell(&lost[position].0, ends[position]);
    }
    Ok(Round { moved: settled.settled.len() as u64, is_full, next: None })
}

/// How an attempt and its job end.
type End = (AttemptOutcome, State);

fn write(job: &LostJob, policies: &Policies, outcome: Outcome) -> (String, End) {
    let (detail, outcome, next) = ending::write_lost(&job.budget, policies, outcome);
    (detail, (outcome, next))
}

/// Counted like any other ending: a job that the reaper gives up on is a dead letter too.
fn tell(job: &LostJob, (outcome, next): End) {
    metrics::counter!("windlass_reaped_total").increment(1);
    let meters = Meters::new(&job.definition_key);
    meters.attempt(outcome);
    meters.moved(outcome, next);
    tracing::warn!(
        job_id = %job.fence.job, tenant_id = %job.fence.tenant, definition_key = %job.definition_key,
        attempt_no = job.fence.attempt, "took the job back from a silent worker");
}

/// A definition that cannot be read, or is gone, must not keep its jobs, or those of others, with a dead worker: they end by the
/// default policies. The doctor names the definition.
async fn policies_of(
    database: &Database,
    lost: impl Iterator<Item = &LostJob>,
) -> Result<HashMap<String, Policies>> {
    let mut policies = HashMap::new();
    for job in lost {
        let key = &job.definition_key;
        if !policies.contains_key(key) {
            let read = match store::definition::policies(database, key).await {
                Err(error) if !error.is_transient() => {
                    tracing::error!(definition_key = %key, %error, "took back jobs by the default policies");
                    Policies::default()
                }
                read => read?,
            };
            policies.insert(key.clone(), read);
        }
    }
    Ok(policies)
}
