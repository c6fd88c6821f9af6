//! The one way in. A job is described by a [`NewJob`] and enters through [`Queue::enqueue`], [`Queue::enqueue_many`], or
//! [`enqueue`] in the caller's own transaction; HTTP, schedules, events and chains use the same.
//!
//! What is checked here: the payload's limits and, where the definition is at hand, its JSON Schema. In the caller's own
//! transaction the definition is not at hand, so the schema is checked before the job runs instead.

pub(crate) mod batching;
pub(crate) mod emit;
#[cfg(any(feature = "sqlx-08", feature = "sqlx-09"))]
pub(crate) mod sqlx;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::new_job::{Enqueued, NewJob};
use crate::queue::{CheckedRoute, Queue};
use crate::store;
use crate::store::database::{CONFLICT_TRIES, conflict_pause};
use crate::store::enqueue::{Route, Routed};
use crate::store::in_force::begin_for;
use crate::telemetry;

/// Enqueues in the caller's own transaction (or on a bare client): the job exists if and only if that commits.
pub async fn enqueue<C: tokio_postgres::GenericClient + Sync>(client: &C, job: &NewJob) -> Result<Enqueued> {
    job.check()?;
    store::enqueue::door_on(client, job).await
}

impl Queue {
    /// Enqueues one job and answers once it is durable.
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued> {
        let enqueued = self.enqueue_one(job).await?;
        telemetry::enqueued([(job, &enqueued)]);
        Ok(enqueued)
    }

    async fn enqueue_one(&self, job: &NewJob) -> Result<Enqueued> {
        let route = self.checked_route(job).await?;
        if job.options.needs_a_guard() || route.0.has_start_deadline {
            return store::enqueue::door_of(self.database(), job).await;
        }
        let routed = self.routed(&route.0, job)?;
        store::enqueue::routed(self.database(), &routed).await?;
        Ok(Enqueued { id: routed.job, state: Some(State::Queued), is_duplicate: false })
    }

    /// Enqueues many jobs in one transaction: all of them or none. Answers in the order given.
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let enqueued = self.enqueue_all(jobs).await?;
        telemetry::enqueued(jobs.iter().zip(&enqueued));
        Ok(enqueued)
    }

    async fn enqueue_all(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let mut answers: Vec<Option<Enqueued>> = vec![None; jobs.len()];
        let mut plain = Vec::with_capacity(jobs.len());
        let mut guarded = Vec::new();
        let mut known: Option<(&NewJob, CheckedRoute)> = None;
        for (position, job) in jobs.iter().enumerate() {
            // A batch is usually of one kind, and finding the way for each costs as much as checking it.
            let route = match &known {
                Some((like, route)) if share_a_route(like, job) => {
                    job.check()?;
                    check_payload(job, route)?;
                    route.clone()
                }
                _ => self.checked_route(job).await?,
            };
            known = Some((job, route.clone()));
            if job.options.needs_a_guard() || route.0.has_start_deadline {
                guarded.push(position);
            } else {
                let routed = self.routed(&route.0, job)?;
                answers[position] =
                    Some(Enqueued { id: routed.job, state: Some(State::Queued), is_duplicate: false });
                plain.push(routed);
            }
        }
        // Keys are locked in their order, so that two batches in opposite order cannot wait for each other.
        guarded.sort_by_key(|&position| {
            let options = &jobs[position].options;
            let keys = (&options.idempotency_key, &options.dedupe_key, &options.ordering_key);
            (keys, options.tenant, position)
        });

        if guarded.is_empty() && plain.len() <= CHUNK && !self.database().is_application() {
            store::enqueue::routed_many(&self.database().session().await?, &plain).await?;
            return Ok(answers.into_iter().flatten().collect());
        }
        let mut tries = 0;
        loop {
            match self.write_many(jobs, &plain, &guarded, &mut answers).await {
                Ok(()) => return Ok(answers.into_iter().flatten().collect()),
                // Undone whole, so it can be done again.
                Err(error)
                    if tries < CONFLICT_TRIES && (error.is_conflict() || error.is_lost_statement()) =>
                {
                    tries += 1;
                    conflict_pause().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn write_many(
        &self,
        jobs: &[NewJob],
        plain: &[Routed<'_>],
        guarded: &[usize],
        answers: &mut [Option<Enqueued>],
    ) -> Result<()> {
        let mut session = self.database().session().await?;
        session.begin_with(&begin_for(self.tenant_of_all(jobs))).await?;
        for chunk in plain.chunks(CHUNK) {
            store::enqueue::routed_many(&session, chunk).await?;
        }
        for &position in guarded {
            answers[position] = Some(store::enqueue::door(&session, &jobs[position]).await?);
        }
        session.commit().await
    }

    /// The one tenant of a batch, where it has to be put in force. A batch for several is refused to an application.
    fn tenant_of_all(&self, jobs: &[NewJob]) -> Option<Uuid> {
        let tenant = jobs.first()?.options.tenant?;
        let is_one = jobs.iter().all(|job| job.options.tenant == Some(tenant));
        (is_one && self.database().is_application()).then_some(tenant)
    }

    pub(crate) async fn checked_route(&self, job: &NewJob) -> Result<CheckedRoute> {
        job.check()?;
        let options = &job.options;
        let route = self
            .route(options.tenant, &job.definition_key, options.queue.as_deref(), options.priority)
            .await?;
        check_payload(job, &route)?;
        Ok(route)
    }

    pub(crate) fn routed<'a>(&self, route: &Route, job: &'a NewJob) -> Result<Routed<'a>> {
        Ok(Routed {
            tenant: route.tenant,
            job: job.options.id.map_or_else(|| Ok(self.new_id()), |id| self.chosen_id(id))?,
            lane: route.lane,
            max_attempts: job.options.max_attempts.map_or(Ok(route.max_attempts), |most| {
                i16::try_from(most)
                    .ok()
                    .filter(|most| (1..=1000).contains(most))
                    .ok_or_else(|| Error::refused("max_attempts", "must be between 1 and 1000"))
            })?,
            payload: job.payload_text()?.into(),
            extra: job.options.extra(),
        })
    }
}

fn share_a_route(one: &NewJob, other: &NewJob) -> bool {
    let way = |job: &NewJob| (job.options.tenant, job.options.priority);
    one.definition_key == other.definition_key
        && way(one) == way(other)
        && one.options.queue == other.options.queue
}

fn check_payload(job: &NewJob, route: &CheckedRoute) -> Result<()> {
    match &route.1 {
        Some(validator) => crate::model::definition::check_payload(validator, job.payload_text()?),
        None => Ok(()),
    }
}

/// Rows per statement of a bulk enqueue: past a thousand the arrays cost more memory than they save round trips.
const CHUNK: usize = 1000;
