//! Recovers jobs from workers that missed their heartbeats. Reads which workers are overdue, decides for each job as
//! for any other outcome, and applies that under a lock that checks the expiry again: a worker that sends a heartbeat
//! in between keeps its jobs.
//!
//! A worker holds all its jobs with one lease. A job of a pull worker has its own lease, and may also have reached its
//! timeout, which only the reaper enforces.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

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

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    // First the jobs with their own lease: it contains more about them than their worker's.
    let pulled = store::pull::lost_jobs(database).await?;
    let outcome = |is_timed_out| if is_timed_out { Outcome::TimedOut } else { Outcome::Lost };
    let pulled = pulled.into_iter().map(|(job, is_timed_out)| (job, outcome(is_timed_out))).collect();
    let pulled = recover(database, pulled, None).await?;

    let mut ours = store::keeper::lost_jobs(database).await?;
    ours.sort_unstable_by_key(|job| (job.fence.tenant, job.fence.job));
    let mut workers: Vec<i32> = ours.iter().map(|job| job.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let ours = ours.into_iter().map(|job| (job, Outcome::Lost)).collect();
    let moved = pulled + recover(database, ours, Some(&workers)).await?;
    // There may be more. A round that finds nothing costs little, and one that could recover nothing is not repeated.
    Ok(Round { moved, is_full: moved > 0, next: None })
}

/// Ends the attempts of these jobs, if their lease is still expired: that of their workers, or else their own. Returns how many.
async fn recover(database: &Database, lost: Vec<(LostJob, Outcome)>, workers: Option<&[i32]>) -> Result<u64> {
    if lost.is_empty() {
        return Ok(0);
    }
    let policies = policies_of(database, lost.iter().map(|(job, _)| job)).await?;
    let fences: Vec<_> = lost.iter().map(|(job, _)| job.fence).collect();
    let (details, ends): (Vec<String>, Vec<AttemptEnd>) =
        lost.iter().map(|(job, outcome)| write(job, &policies[&job.definition_key], *outcome)).unzip();
    let settled = match workers {
        Some(workers) => store::keeper::reap(database, workers, &fences, &details).await?,
        None => store::pull::reap(database, &fences, &details).await?,
    };
    for &position in &settled.settled {
        record(&lost[position].0, ends[position]);
    }
    report(settled.settled.iter().map(|&position| &lost[position].0));
    Ok(settled.settled.len() as u64)
}

/// How an attempt and its job end.
type AttemptEnd = (AttemptOutcome, State);

fn write(job: &LostJob, policies: &Policies, outcome: Outcome) -> (String, AttemptEnd) {
    let (detail, outcome, next) = ending::settlement_of_lost(&job.budget, policies, outcome);
    (detail, (outcome, next))
}

/// Counted like any other end: a job that the reaper does not retry is a dead letter too.
fn record(job: &LostJob, (outcome, next): AttemptEnd) {
    metrics::counter!("windlass_reaped_total").increment(1);
    let meters = Meters::new(&job.definition_key);
    meters.attempt(outcome);
    meters.moved(outcome, next);
    tracing::debug!(
        job_id = %job.fence.job, tenant_id = %job.fence.tenant, definition_key = %job.definition_key,
        attempt_no = job.fence.attempt, "recovered a job of a lost worker");
}

/// One line for a round, with the tenant that lost the most: a tenant can let thousands of leases expire, and with a line for each it
/// would fill the log of all.
fn report<'a>(recovered: impl Iterator<Item = &'a LostJob>) {
    let mut by_tenant: BTreeMap<Uuid, usize> = BTreeMap::new();
    for job in recovered {
        *by_tenant.entry(job.fence.tenant).or_default() += 1;
    }
    let Some((tenant, most)) = by_tenant.iter().max_by_key(|(_, count)| **count) else { return };
    tracing::warn!(
        jobs = by_tenant.values().sum::<usize>(), tenants = by_tenant.len(), tenant_id = %tenant, of_tenant = most,
        "recovered jobs of lost workers");
}

/// A definition that cannot be read, or does not exist, must not prevent the recovery of its jobs or of others: they
/// end by the default policies. The doctor reports the definition.
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
                    tracing::error!(definition_key = %key, %error,
                        "recovered jobs with the default policies: the definition cannot be read");
                    Policies::default()
                }
                read => read?,
            };
            policies.insert(key.clone(), read);
        }
    }
    Ok(policies)
}
