//! The only way to enqueue. A job is described by a [`NewJob`] and enqueued with [`Queue::enqueue`],
//! [`Queue::enqueue_many`], or [`enqueue_in`] in the caller's own transaction; HTTP, schedules, events and chained jobs
//! use the same functions.
//!
//! Checked here: the limits of the payload and, if the definition is available, its JSON Schema. In the caller's own
//! transaction the definition is not available, so the schema is checked before the job runs instead.

pub(crate) mod batching;
pub(crate) mod emit;
pub(crate) mod plan;

use uuid::Uuid;

use crate::error::Result;
use crate::model::new_job::{AsJob, Enqueued, NewJob};
use crate::queue::{CheckedRoute, Queue};
use crate::store;
use crate::store::current_tenant::begin_for;
use crate::store::database::{CONFLICT_TRIES, conflict_pause};
use crate::store::enqueue::Routed;
use crate::store::keys::BatchKeys;
use crate::telemetry;
use plan::{Batch, Plan, check_payload, checked_route, enqueued, plan};

/// Enqueues in the caller's own transaction (or on a bare client): the job exists if and only if the transaction commits.
///
/// ```no_run
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { image: i64, width: u32 }
/// # impl windlass::JobArgs for Resize { const KEY: &'static str = "resize"; }
/// use windlass::{JobArgs, enqueue_in};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tx = client.transaction().await?;
/// tx.execute("insert into image (id) values (7)", &[]).await?;
/// enqueue_in(&tx, &Resize { image: 7, width: 640 }).await?;
/// enqueue_in(&tx, &Resize { image: 7, width: 64 }.job().priority(900)).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// The definition must exist: it is registered by a worker with a handler, or with [`Queue::define`]. Its JSON Schema
/// is checked before the job runs.
pub async fn enqueue_in<C, J>(client: &C, job: &J) -> Result<Enqueued>
where
    C: tokio_postgres::GenericClient + Sync,
    J: AsJob + Sync + ?Sized,
{
    let job = job.as_job();
    job.check()?;
    store::enqueue::guarded_in(client, &job).await
}

impl Queue {
    /// Enqueues one job and returns once it is durable.
    ///
    /// ```no_run
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Resize { image: i64, width: u32 }
    /// # impl windlass::JobArgs for Resize { const KEY: &'static str = "resize"; }
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use std::time::Duration;
    /// use windlass::{JobArgs, NewJob};
    ///
    /// // A payload, a payload with options, or a key that is only known at run time.
    /// queue.enqueue(Resize { image: 7, width: 640 }).await?;
    /// queue.enqueue(Resize { image: 7, width: 64 }.job().delay(Duration::from_secs(60))).await?;
    /// let enqueued = queue.enqueue(NewJob::new("resize").payload_json(r#"{"image": 7, "width": 32}"#)).await?;
    /// println!("{} is {:?}", enqueued.id, enqueued.state);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue(&self, job: impl Into<NewJob>) -> Result<Enqueued> {
        let job = &job.into();
        let result = self.enqueue_one(job).await?;
        telemetry::enqueued([(job, &result)]);
        Ok(result)
    }

    async fn enqueue_one(&self, job: &NewJob) -> Result<Enqueued> {
        let route = checked_route(self, job).await?;
        match plan(self, &route, job)? {
            Plan::Guarded => store::enqueue::guarded_on(self.database(), job).await,
            Plan::Plain(routed) => {
                store::enqueue::routed(self.database(), &routed).await?;
                Ok(enqueued(&routed))
            }
        }
    }

    /// Enqueues many jobs in one transaction: all of them or none. Returns their ids in the same order.
    ///
    /// ```no_run
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Resize { image: i64, width: u32 }
    /// # impl windlass::JobArgs for Resize { const KEY: &'static str = "resize"; }
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::{JobArgs, NewJob};
    ///
    /// let jobs: Vec<NewJob> = (1..=1000).map(|image| Resize { image, width: 64 }.job()).collect();
    /// queue.enqueue_many(&jobs).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let results = self.enqueue_all(jobs).await?;
        telemetry::enqueued(jobs.iter().zip(&results));
        Ok(results)
    }

    async fn enqueue_all(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let mut results: Vec<Option<Enqueued>> = Vec::with_capacity(jobs.len());
        let mut batch = Batch::default();
        let mut known: Option<(&NewJob, CheckedRoute)> = None;
        for (position, job) in jobs.iter().enumerate() {
            // The jobs of a batch usually have the same definition, and finding the route of each costs as much as
            // checking it.
            let route = match &known {
                Some((like, route)) if share_a_route(like, job) => {
                    job.check()?;
                    check_payload(job, route)?;
                    route.clone()
                }
                _ => checked_route(self, job).await?,
            };
            known = Some((job, route.clone()));
            results.push(batch.add(position, plan(self, &route, job)?));
        }
        let Batch { plain, mut guarded } = batch;
        // The jobs of a tenant stay in the given order. Tenants are locked in order, so that two batches cannot
        // deadlock; see BatchKeys for their keys.
        guarded.sort_by_key(|&position| jobs[position].options.tenant);

        if guarded.is_empty() && plain.len() <= CHUNK && !self.database().is_application() {
            store::enqueue::routed_many(&self.database().session().await?, &plain).await?;
            return Ok(results.into_iter().flatten().collect());
        }
        let mut tries = 0;
        loop {
            match self.write_many(jobs, &plain, &guarded, &mut results).await {
                Ok(()) => return Ok(results.into_iter().flatten().collect()),
                // The transaction was rolled back, so it can be retried.
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
        results: &mut [Option<Enqueued>],
    ) -> Result<()> {
        let mut session = self.database().session().await?;
        session.begin_with(&begin_for(self.tenant_of_all(jobs))).await?;
        for chunk in plain.chunks(CHUNK) {
            store::enqueue::routed_many(&session, chunk).await?;
        }
        let keys = BatchKeys::of(guarded.iter().map(|&position| &jobs[position]));
        keys.lock(&session).await?;
        for &position in guarded {
            results[position] = Some(store::enqueue::guarded(&session, &jobs[position]).await?);
        }
        keys.unlock(&session).await?;
        session.commit().await
    }

    /// The tenant of a batch, if it must be set as the current tenant. An application cannot enqueue a batch for
    /// several tenants.
    fn tenant_of_all(&self, jobs: &[NewJob]) -> Option<Uuid> {
        let tenant = jobs.first()?.options.tenant?;
        let is_one = jobs.iter().all(|job| job.options.tenant == Some(tenant));
        (is_one && self.database().is_application()).then_some(tenant)
    }
}

fn share_a_route(one: &NewJob, other: &NewJob) -> bool {
    let way = |job: &NewJob| (job.options.tenant, job.options.priority);
    one.definition_key == other.definition_key
        && way(one) == way(other)
        && one.options.queue == other.options.queue
}

/// The number of rows per statement of a bulk enqueue: beyond a thousand, the arrays cost more memory than the saved
/// round trips are worth.
const CHUNK: usize = 1000;
