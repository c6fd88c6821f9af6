//! The protocol of pull workers: processes that claim, renew and settle jobs by calls instead of a
//! [`Worker`](crate::Worker).
//!
//! The HTTP API of `windlass serve` is built on it. An application needs it only to offer the protocol over another
//! transport.
//!
//! ```no_run
//! # async fn example() -> windlass::Result<()> {
//! use std::time::Duration;
//! use windlass::Done;
//! use windlass::pull::{Claim, Pull, Puller};
//!
//! let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
//! let pull = Pull::start(&queue).await?;
//! let caller = Puller::new("machine-7").tenant(windlass::DEFAULT_TENANT);
//! let claim = Claim::new(["resize"]).limit(10).wait(Duration::from_secs(20));
//! for job in pull.claim(&caller, claim).await? {
//!     println!("{} {}", job.id, job.payload);
//!     pull.complete(&caller, job.id, &job.fence, Done::new()).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A pull worker replaces the feed, the run and the lease of a [`Worker`](crate::Worker); the end of an attempt is
//! decided by the same rules and written by the same statement (`job/settle.rs`, `settle_blocks.sql`). It holds every job with
//! a separate lease, and the job's fence is sufficient to report about it, on any connection and to any server.
//!
//! A caller is trusted only as far as its credential allows: a [`Puller`] of one tenant gets only that tenant's jobs,
//! and a fence of another tenant's job is stale for it.
//!
//! # How it stops
//!
//! [`Pull::stop`] lets every waiting claim return without jobs and releases jobs that were claimed for no caller.
//! Dropping the last clone does the same without waiting for it.

mod ask;
mod dispatch;
mod ending;
mod given;
mod groups;
mod interest;
mod known;
mod leftovers;
mod reply;
mod undelivered;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use ask::{Claim, Heartbeat, Puller, WorkerInfo};
pub use given::{HeartbeatReply, Held, PulledJob, Registered};
pub use undelivered::PulledJobs;

use crate::attempt::compiled::CompiledDefinition;
use crate::attempt::done::{Done, Failure};
use crate::blocking::by_size;
use crate::error::{Error, Result};
use crate::model::job::claimed::Fence;
use crate::model::job::state::State;
use crate::queue::Queue;
use crate::queue::listen;
use crate::store;
use crate::store::database::Database;
use crate::store::permits::Permits;
use crate::store::worker::WorkerRegistration;
use crate::telemetry::Meters;
use crate::text::redact::Redactor;
use dispatch::Dispatcher;
use groups::Waiter;
use interest::{ClaimPermits, Interest};
use known::{KnownWorker, KnownWorkers};
use reply::Reply;

/// The service. Cheap to clone; clones share the dispatcher.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use std::time::Duration;
/// use windlass::pull::{Heartbeat, Claim, Held, Pull, Puller, WorkerInfo};
/// use windlass::{Done, Failure};
///
/// let pull = Pull::start(queue).await?;
/// let caller = Puller::new("machine-7").tenant(windlass::DEFAULT_TENANT);
/// pull.register(&caller, &WorkerInfo::default().hostname("machine-7")).await?;
///
/// for job in pull.claim(&caller, Claim::new(["resize"]).limit(4)).await? {
///     let (id, fence) = (job.id, job.fence.as_str());
///     // Repeat this while the job runs.
///     if pull.heartbeat(&caller, id, fence, &Heartbeat::default().percent(Some(50.0))).await? == Held::LeaseLost {
///         continue;
///     }
///     match job.attempt {
///         1 => pull.complete(&caller, id, fence, Done::new()).await?,
///         2 => pull.fail(&caller, id, fence, Failure::retry("no memory")).await?,
///         3 => pull.snooze(&caller, id, fence, Duration::from_secs(60)).await?,
///         _ => pull.release(&caller, id, fence).await?,
///     };
/// }
/// pull.sign_off(&caller, None).await?;
/// pull.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Pull {
    inner: Arc<Service>,
}

#[derive(Debug)]
struct Service {
    database: Database,
    waiters: mpsc::UnboundedSender<Waiter>,
    names: KnownWorkers,
    waiting: ClaimPermits,
    definitions: Arc<Definitions>,
    stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Releases of jobs whose claim was dropped.
    releases: TaskTracker,
    /// The settlements of one tenant: all its connections but one, which is left to its heartbeats.
    settling: Permits,
}

impl Pull {
    /// Starts the service on a queue: one dispatcher, one LISTEN connection and a few more, regardless of how many
    /// workers wait.
    pub async fn start(queue: &Queue) -> Result<Self> {
        Self::start_polling(queue, dispatch::POLL).await
    }

    /// The same with another interval at which the queue is searched without a notification.
    #[doc(hidden)]
    pub async fn start_polling(queue: &Queue, poll_interval: Duration) -> Result<Self> {
        let settings = queue.settings().clone();
        let database = Database::for_engine(&settings, settings.connections, dispatch::PATIENCE)?.shared();
        let (waiters, arriving) = mpsc::unbounded_channel();
        let (wakes, received) = broadcast::channel(4096);
        let definitions = Arc::new(Definitions::default());
        let names = KnownWorkers::default();
        let stop = CancellationToken::new();
        // The dispatcher holds a connection while it runs and uses another in addition; the writer of its leftovers
        // uses a third. They are separate, so that the calls of workers always find a free connection.
        let its_own = Database::new(&settings.config, 3, settings.prepared)?;
        let (leftovers, writer) = leftovers::leftovers(its_own.clone());
        let dispatcher =
            Dispatcher::start(its_own, arriving, received, definitions.clone(), names.clone(), leftovers)
                .await?
                .poll_interval(poll_interval);
        let mut tasks = vec![tokio::spawn(dispatcher.run(stop.clone())), tokio::spawn(writer.run())];
        if settings.listen {
            // A cancel reaches a pull worker with its next heartbeat.
            tasks.push(tokio::spawn(listen::listen(settings.direct.clone(), wakes, (), stop.clone())));
        } else {
            let (stop, wakes) = (stop.clone(), wakes);
            tasks.push(tokio::spawn(async move {
                stop.cancelled().await;
                drop(wakes);
            }));
        }
        let waiting = ClaimPermits::default();
        let (tasks, releases) = (Mutex::new(tasks), TaskTracker::new());
        let settling = ending::settling(&database);
        let inner =
            Service { database, waiters, names, waiting, definitions, stop, tasks, releases, settling };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Registers a worker. Optional before a claim; it adds metadata.
    pub async fn register(&self, puller: &Puller, introduction: &WorkerInfo) -> Result<Registered> {
        introduction.check()?;
        let name = puller.name_of(introduction.worker_id.as_deref())?;
        let registration = introduction.as_stored(&name);
        let database = self.inner.database.of_tenant(puller.tenant);
        let (worker, is_draining) =
            store::pull::register(&database, &registration, &introduction.version).await?;
        let known = KnownWorker { number: worker, version: introduction.version.clone(), registration };
        self.inner.names.of(puller.tenant, &name).await.set(known);
        let worker_id = introduction.worker_id.clone().unwrap_or_else(|| puller.name.clone());
        Ok(Registered { worker_id, is_draining })
    }

    /// Claims jobs, waiting for the first one as long as requested. Returns an empty list if there was none. A future
    /// that is dropped takes nothing: jobs claimed for it are released, and those of its result if it is dropped before
    /// they are taken out of it.
    pub async fn claim(&self, puller: &Puller, claim: Claim) -> Result<PulledJobs> {
        claim.check()?;
        let name = puller.name_of(claim.worker_id.as_deref())?;
        let (keys, queues) = (claim.definition_keys.clone(), claim.queues.clone());
        let place = self.inner.waiting.take(Interest::new(puller.tenant, keys, queues))?;
        let worker = self.worker(puller, &claim, &name).await?;
        let patience = patience_of(claim.wait);
        let (reply, response) = oneshot::channel();
        let of_service = |jobs: Vec<PulledJob>| PulledJobs::new(self.inner.clone(), jobs);
        let mut response = Reply::new(response, |jobs| drop(of_service(jobs)));
        let waiter = Waiter::new(&claim, place, worker, reply);
        if self.inner.waiters.send(waiter).is_err() {
            return Ok(of_service(Vec::new()));
        }
        match tokio::time::timeout(patience, response.receive()).await {
            Ok(jobs) => Ok(of_service(jobs)),
            Err(_) => Ok(of_service(response.close())),
        }
    }

    /// Returns the number of the worker. Registers it if it is not known, or if it claims other definitions or queues
    /// than it is registered with: reports about jobs without a worker are made from the registration.
    async fn worker(&self, puller: &Puller, claim: &Claim, name: &str) -> Result<i32> {
        // Held while it registers, so that concurrent claims of one worker do it once.
        let mut entry = self.inner.names.of(puller.tenant, name).await;
        let (registration, version) = match entry.known() {
            Some(known) if claim.is_registered(&known.registration) => return Ok(known.number),
            Some(known) => {
                let registration = WorkerRegistration {
                    queues: Some(claim.queues.clone()),
                    definition_keys: claim.definition_keys.clone(),
                    ..known.registration.clone()
                };
                (registration, known.version.clone())
            }
            None => (claim.as_introduction(name), String::new()),
        };
        let database = self.inner.database.of_tenant(puller.tenant);
        let (number, _) = store::pull::register(&database, &registration, &version).await?;
        entry.set(KnownWorker { number, version, registration });
        Ok(number)
    }

    /// Renews the lease of an attempt, and stores its reports.
    pub async fn heartbeat(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        beat: &Heartbeat,
    ) -> Result<Held<HeartbeatReply>> {
        beat.check()?;
        let Some(fence) = puller.holds(job, fence) else { return Ok(Held::LeaseLost) };
        // Most heartbeats only report that the attempt is alive; only a text requires another read of the job.
        let redactor =
            if beat.has_texts() { self.redactor(&fence).await? } else { Some(Redactor::default()) };
        let Some(redactor) = redactor else {
            lease_lost(&fence);
            return Ok(Held::LeaseLost);
        };
        let said = {
            let beat = beat.clone();
            by_size(beat.text_bytes(), move || beat.heartbeat_input(&redactor)).await
        };
        let database = self.inner.database.of_tenant(Some(fence.tenant));
        let renewed = store::pull::heartbeat(&database, &fence, &said).await?;
        let Some(renewed) = renewed else {
            lease_lost(&fence);
            return Ok(Held::LeaseLost);
        };
        Ok(Held::Held(HeartbeatReply {
            lease_expires_at: renewed.lease_expires_at,
            lease_seconds: renewed.lease_seconds,
            cancel_requested: renewed.cancel_requested,
        }))
    }

    /// Records the success of an attempt. Returns the state of the job: a cancel request takes precedence over the
    /// success.
    pub async fn complete(&self, puller: &Puller, job: Uuid, fence: &str, done: Done) -> Result<Held<State>> {
        done.check()?;
        if let Some((position, error)) =
            done.next.iter().enumerate().find_map(|(n, job)| Some((n, job.check().err()?)))
        {
            return Err(Error::refused(format!("next/{position}"), error.to_string()));
        }
        self.end(puller, job, fence, Ok(done).into()).await
    }

    /// Records the failure of an attempt; [`Failure`] specifies whether and when to retry.
    pub async fn fail(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        failure: Failure,
    ) -> Result<Held<State>> {
        self.end(puller, job, fence, Err(failure).into()).await
    }

    /// Snoozes the job: it runs again after this time. Not counted as a failure.
    pub async fn snooze(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        delay: Duration,
    ) -> Result<Held<State>> {
        self.end(puller, job, fence, Ok(Done::snooze(delay)).into()).await
    }

    /// Releases the job: another worker can claim it immediately. Not counted as a failure.
    pub async fn release(&self, puller: &Puller, job: Uuid, fence: &str) -> Result<Held<State>> {
        self.end(puller, job, fence, ending::released()).await
    }

    /// Signs off a worker that stops, so that it is listed as stopped at once. Returns `false`, and changes nothing, while
    /// a worker of this name holds jobs. A later claim returns it to service.
    pub async fn sign_off(&self, puller: &Puller, worker_id: Option<&str>) -> Result<bool> {
        let name = puller.name_of(worker_id)?;
        // Held meanwhile: a claim that arrives later registers the worker again.
        let mut entry = self.inner.names.of(puller.tenant, &name).await;
        let is_stopped = store::pull::stop(&self.inner.database.of_tenant(puller.tenant), &name).await?;
        if is_stopped {
            entry.forget();
        }
        Ok(is_stopped)
    }

    /// Stops the service; waiting claims return no jobs.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        let tasks = std::mem::take(&mut *self.inner.tasks.lock());
        for task in tasks {
            // A task that panicked has logged it.
            let _ = task.await;
        }
        self.inner.releases.close();
        self.inner.releases.wait().await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How long a claim that does not wait may take to be served: the dispatcher responds to it after its next turn.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// How long a claim waits for its response.
fn patience_of(wait: Duration) -> Duration {
    if wait.is_zero() { SERVED_WITHIN } else { wait }
}

fn lease_lost(fence: &Fence) {
    metrics::counter!("windlass_lease_lost_total").increment(1);
    tracing::debug!(job_id = %fence.job, tenant_id = %fence.tenant, attempt_no = fence.attempt,
        "lease lost: the call of a pull worker was ignored");
}

/// Definitions as last read, with their meters.
#[derive(Debug, Default)]
pub(crate) struct Definitions(Mutex<HashMap<Arc<str>, Read>>);

#[derive(Debug, Clone)]
struct Read {
    at: Instant,
    compiled: Arc<CompiledDefinition>,
    meters: Arc<Meters>,
}

impl Definitions {
    const AGE: Duration = Duration::from_secs(5);

    pub(crate) async fn get(
        &self,
        database: &Database,
        key: &Arc<str>,
    ) -> Result<(Arc<CompiledDefinition>, Arc<Meters>)> {
        let read = self.0.lock().get(key).cloned();
        if let Some(read) = &read
            && read.at.elapsed() < Self::AGE
        {
            return Ok((read.compiled.clone(), read.meters.clone()));
        }
        let compiled = Arc::new(CompiledDefinition::read(database, key).await?);
        let meters = read.map_or_else(|| Arc::new(Meters::new(key)), |read| read.meters);
        let fresh = Read { at: Instant::now(), compiled: compiled.clone(), meters: meters.clone() };
        self.0.lock().insert(key.clone(), fresh);
        Ok((compiled, meters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_as_long_as_requested_and_one_that_does_not_wait_until_it_is_served() {
        for wait in [Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(60)] {
            assert_eq!(patience_of(wait), wait);
        }
        assert_eq!(patience_of(Duration::ZERO), SERVED_WITHIN);
    }
}
