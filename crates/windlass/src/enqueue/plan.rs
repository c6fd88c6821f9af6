//! How a job gets in, decided in one place for every door: as a plain row of a lane that is known, or guarded by the database.

use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::new_job::{Enqueued, NewJob};
use crate::queue::{CheckedRoute, Queue};
use crate::store::enqueue::Routed;

/// The two ways in.
pub(crate) enum Plan<'a> {
    /// Nothing has to be compared with other jobs: one insert into a lane that is known.
    Plain(Routed<'a>),
    /// The database has to check it under its locks: a key, a start time, a deadline, dependencies, or the tenant's quota.
    Guarded,
}

/// Decides from what the job asks for and what its route demands.
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

/// What a caller hears of a job that went in plainly.
pub(crate) fn enqueued(routed: &Routed<'_>) -> Enqueued {
    Enqueued { id: routed.job, state: Some(State::Queued), is_duplicate: false }
}

/// The route of a job that was checked, with its payload, as far as that can be done before the statement.
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
