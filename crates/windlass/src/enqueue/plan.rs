//! How a job is inserted, decided in one place for all callers: as a plain row of a known lane, or guarded by the
//! database.

use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::new_job::{Enqueued, NewJob};
use crate::queue::{CheckedRoute, Queue};
use crate::store::enqueue::Routed;

/// The two ways to insert a job.
pub(crate) enum Plan<'a> {
    /// Nothing has to be compared with other jobs: one insert into a known lane.
    Plain(Routed<'a>),
    /// The database has to check the job under its locks: because of a key, a start time, a deadline, dependencies, or
    /// the tenant's quota.
    Guarded,
}

/// The jobs of a batch, by the way they are inserted.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) plain: Vec<Routed<'a>>,
    /// Their positions.
    pub(crate) guarded: Vec<usize>,
}

impl<'a> Batch<'a> {
    /// Adds the job at this position. Returns its result if that is known before the insert: a guarded one may be a duplicate.
    pub(crate) fn add(&mut self, position: usize, plan: Plan<'a>) -> Option<Enqueued> {
        match plan {
            Plan::Guarded => {
                self.guarded.push(position);
                None
            }
            Plan::Plain(routed) => {
                let result = enqueued(&routed);
                self.plain.push(routed);
                Some(result)
            }
        }
    }
}

/// Decides by the options of the job and the requirements of its route.
pub(crate) fn plan<'a>(queue: &Queue, route: &CheckedRoute, job: &'a NewJob) -> Result<Plan<'a>> {
    let (route, options) = (&route.0, &job.options);
    if options.needs_a_guard() || route.is_guarded {
        return Ok(Plan::Guarded);
    }
    let max_attempts = match options.max_attempts {
        None => route.max_attempts,
        Some(most) => i16::try_from(most)
            .ok()
            .filter(|most| (1..=1000).contains(most))
            .ok_or_else(|| Error::refused("max_attempts", "must be between 1 and 1000"))?,
    };
    Ok(Plan::Plain(Routed {
        tenant: route.tenant,
        job: options.id.map_or_else(|| Ok(queue.new_id()), |id| queue.chosen_id(id))?,
        lane: route.lane,
        max_attempts,
        payload: job.payload_text()?.into(),
        extra: options.extra(),
    }))
}

/// The result of a plain insert.
pub(crate) fn enqueued(routed: &Routed<'_>) -> Enqueued {
    Enqueued { id: routed.job, state: Some(State::Queued), is_duplicate: false }
}

/// Returns the route of a job, after checking the job and its payload as far as possible before the statement.
pub(crate) async fn checked_route(queue: &Queue, job: &NewJob) -> Result<CheckedRoute> {
    job.check()?;
    let options = &job.options;
    let route =
        queue.route(options.tenant, &job.definition_key, options.queue.as_deref(), options.priority).await?;
    check_payload(job, &route)?;
    Ok(route)
}

pub(crate) fn check_payload(job: &NewJob, route: &CheckedRoute) -> Result<()> {
    match &route.1 {
        Some(validator) => crate::model::definition::check_payload(validator, job.payload_text()?),
        None => Ok(()),
    }
}
