//! The protocol of pull workers: processes that claim, renew and settle jobs by calls instead of a [`Worker`](crate::Worker).
//!
//! The HTTP API of `windlass serve` is built on it. An application needs it only to offer the protocol over a transport of its own.
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
//! A pull worker stands in for the feed, the run and the lease of one of ours; what it says of an attempt is decided by the
//! same rules and written by the same statement (`job/settle.rs`, `settle.sql`). It holds every job under a lease of its
//! own, and the fence it got with the job is all it needs to speak of it, on any connection and to any server.
//!
//! Nothing here trusts the caller further than its credential goes: a [`Puller`] of one tenant is given that tenant's
//! jobs only, and a fence of another tenant's job is a stale one to it.
//!
//! # How it stops
//!
//! [`Pull::stop`] lets every waiting claim return empty-handed and gives back what was claimed for nobody. Dropping the
//! last clone does the same without waiting for it.

mod ask;
mod dispatch;
mod ending;
mod given;
mod groups;
mod leftovers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OnceCell, broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use ask::{Beat, Claim, Introduction, Puller};
pub use given::{Beaten, Held, PulledJob, Registered};

use crate::attempt::done::{Done, Failure};
use crate::attempt::known::Known;
use crate::blocking::by_size;
use crate::error::{Error, Result};
use crate::model::job::claimed::Fence;
use crate::model::job::state::State;
use crate::queue::Queue;
use crate::queue::listen;
use crate::queue::slots::Slots;
use crate::store;
use crate::store::database::Database;
use crate::telemetry::Meters;
use crate::text::redact::Redactor;
use dispatch::Dispatcher;
use groups::Waiter;

/// The service. Cheap to clone; clones share the dispatcher.
#[derive(Debug, Clone)]
pub struct Pull {
    inner: Arc<Service>,
}

#[derive(Debug)]
struct Service {
    database: Database,
    waiters: mpsc::UnboundedSender<Waiter>,
    names: WorkerNumbers,
    /// Claims that wait, and the names that they ask for, of each tenant.
    waiting: [Slots; 2],
    definitions: Arc<Definitions>,
    stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Pull {
    /// Starts the service on a queue: one dispatcher, one LISTEN connection and a few more, however many workers wait.
    pub async fn start(queue: &Queue) -> Result<Self> {
        let settings = queue.settings().clone();
        let database = Database::for_engine(&settings, settings.connections, dispatch::PATIENCE)?.shared();
        let (waiters, arriving) = mpsc::unbounded_channel();
        let (wakes, heard) = broadcast::channel(4096);
        let definitions = Arc::new(Definitions::default());
        let names = WorkerNumbers::default();
        let stop = CancellationToken::new();
        // The dispatcher keeps a connection for as long as it runs and uses another beside it; whoever writes its leftovers uses a third.
        // They are its own: the calls of workers must find theirs free.
        let its_own = Database::new(&settings.config, 3, settings.prepared)?;
        let (leftovers, writer) = leftovers::leftovers(its_own.clone());
        let dispatcher =
            Dispatcher::start(its_own, arriving, heard, definitions.clone(), names.clone(), leftovers)
                .await?;
        let mut tasks = vec![tokio::spawn(dispatcher.run(stop.clone())), tokio::spawn(writer.run())];
        if settings.listen {
            // A cancel reaches a pull worker with its next heartbeat.
            tasks.push(tokio::spawn(listen::listen(settings.direct.clone(), wakes, |_| {}, stop.clone())));
        } else {
            let (stop, wakes) = (stop.clone(), wakes);
            tasks.push(tokio::spawn(async move {
                stop.cancelled().await;
                drop(wakes);
            }));
        }
        let waiting = [Slots::new(MOST_WAITING), Slots::new(MOST_NAMED)];
        let inner =
            Service { database, waiters, names, waiting, definitions, stop, tasks: Mutex::new(tasks) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A worker introduces itself. Not needed before a claim, but it says more of the worker.
    pub async fn register(&self, puller: &Puller, introduction: &Introduction) -> Result<Registered> {
        introduction.check()?;
        let name = puller.name_of(introduction.worker_id.as_deref())?;
        let (worker, is_quiet) = store::pull::register(
            &self.inner.database.of_tenant(puller.tenant),
            &introduction.as_stored(&name),
            &introduction.version,
        )
        .await?;
        // The number of a name does not change, so whoever writes it down first is right.
        let _ = self.inner.names.of(&name).set(worker);
        let worker_id = introduction.worker_id.clone().unwrap_or_else(|| puller.name.clone());
        Ok(Registered { worker_id, is_quiet })
    }

    /// Takes jobs, waiting for the first one as long as asked. Empty when none came. A future that is dropped takes
    /// nothing: what was claimed for it is given back.
    pub async fn claim(&self, puller: &Puller, claim: Claim) -> Result<Vec<PulledJob>> {
        claim.check()?;
        let name = puller.name_of(claim.worker_id.as_deref())?;
        let names = claim.definition_keys.len() + claim.queues.len();
        // Workers of the installation have no limit: they belong to whoever runs the server.
        let _places = match puller.tenant {
            Some(tenant) => {
                let [claims, named] = &self.inner.waiting;
                Some((
                    claims.take(tenant, 1).ok_or(Error::Busy)?,
                    named.take(tenant, names).ok_or(Error::Busy)?,
                ))
            }
            None => None,
        };
        let asked = async || {
            let me = claim.as_introduction(&name);
            let database = self.inner.database.of_tenant(puller.tenant);
            Ok::<_, Error>(store::pull::register(&database, &me, "").await?.0)
        };
        let worker = *self.inner.names.of(&name).get_or_try_init(asked).await?;
        let wait = claim.wait;
        let (reply, mut answer) = oneshot::channel();
        let waiter = Waiter::new(claim, puller.tenant, worker, reply);
        if self.inner.waiters.send(waiter).is_err() {
            return Ok(Vec::new());
        }
        // The dispatcher looks at everybody who came in by then, so a claim that does not wait is looked at once too.
        let patience = wait.max(AT_LEAST);
        match tokio::time::timeout(patience, &mut answer).await {
            Ok(jobs) => Ok(jobs.unwrap_or_default()),
            Err(_) => {
                answer.close();
                Ok(answer.try_recv().unwrap_or_default())
            }
        }
    }

    /// Says that the attempt is alive, and what it says of itself.
    pub async fn heartbeat(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        beat: &Beat,
    ) -> Result<Held<Beaten>> {
        beat.check()?;
        let Some(fence) = puller.holds(job, fence) else { return Ok(Held::LeaseLost) };
        // Most heartbeats say nothing but that the attempt is alive; only a text is worth another look at the job.
        let redactor =
            if beat.has_texts() { self.redactor(&fence).await? } else { Some(Redactor::default()) };
        let Some(redactor) = redactor else {
            lease_lost(&fence);
            return Ok(Held::LeaseLost);
        };
        let said = {
            let beat = beat.clone();
            by_size(beat.text_bytes(), move || beat.said(&redactor)).await
        };
        let database = self.inner.database.of_tenant(Some(fence.tenant));
        let renewed = store::pull::heartbeat(&database, &fence, &said).await?;
        let Some(renewed) = renewed else {
            lease_lost(&fence);
            return Ok(Held::LeaseLost);
        };
        Ok(Held::Held(Beaten {
            lease_expires_at: renewed.lease_expires_at,
            lease_seconds: renewed.lease_seconds,
            cancel_requested: renewed.cancel_requested,
        }))
    }

    /// The attempt succeeded. Answers the state the job is in now: a cancel request wins over the success.
    pub async fn complete(&self, puller: &Puller, job: Uuid, fence: &str, done: Done) -> Result<Held<State>> {
        done.check()?;
        if let Some((position, error)) =
            done.next.iter().enumerate().find_map(|(n, job)| Some((n, job.check().err()?)))
        {
            return Err(Error::refused(format!("next/{position}"), error.to_string()));
        }
        self.end(puller, job, fence, Ok(done).into()).await
    }

    /// The attempt failed; [`Failure`] says whether and when to try again.
    pub async fn fail(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        failure: Failure,
    ) -> Result<Held<State>> {
        self.end(puller, job, fence, Err(failure).into()).await
    }

    /// Not done yet: to be run again after this time, uncharged.
    pub async fn snooze(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        delay: Duration,
    ) -> Result<Held<State>> {
        self.end(puller, job, fence, Ok(Done::snooze(delay)).into()).await
    }

    /// Given back uncharged: another worker takes it at once.
    pub async fn release(&self, puller: &Puller, job: Uuid, fence: &str) -> Result<Held<State>> {
        self.end(puller, job, fence, ending::released()).await
    }

    /// Stops the service; claims that wait return empty-handed.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        let tasks = std::mem::take(&mut *self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // One that panicked has said so.
            let _ = task.await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Claims of one tenant that wait at the same time, a quarter of the connections that a server accepts; and definition keys and queues
/// that they name together, each of which costs a look at the lanes.
const MOST_WAITING: usize = 2_500;
const MOST_NAMED: usize = 50_000;

/// How long a claim that does not wait may take to be looked at.
const AT_LEAST: Duration = Duration::from_secs(5);

fn lease_lost(fence: &Fence) {
    metrics::counter!("windlass_lease_lost_total").increment(1);
    tracing::info!(job_id = %fence.job, tenant_id = %fence.tenant, attempt_no = fence.attempt,
        "a pull worker's word came too late; it does not count");
}

/// The numbers of the workers heard of, so that a claim need not ask for it; asked for once, however many claims of a
/// worker come in at the same moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerNumbers(Arc<Mutex<HashMap<String, Arc<OnceCell<i32>>>>>);

impl WorkerNumbers {
    /// Names are the workers' own choice: more than this many are forgotten and asked for again.
    const MOST: usize = 100_000;

    fn of(&self, name: &str) -> Arc<OnceCell<i32>> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= Self::MOST {
            names.clear();
        }
        names.entry(name.to_owned()).or_default().clone()
    }

    /// The rows of these are gone.
    pub(crate) fn forget(&self, gone: &[i32]) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|_, worker| worker.get().is_none_or(|worker| !gone.contains(worker)));
    }
}

/// Definitions as last read, with their meters.
#[derive(Debug, Default)]
pub(crate) struct Definitions(Mutex<HashMap<Arc<str>, Read>>);

#[derive(Debug, Clone)]
struct Read {
    at: Instant,
    known: Arc<Known>,
    meters: Arc<Meters>,
}

impl Definitions {
    const AGE: Duration = Duration::from_secs(5);

    pub(crate) async fn get(&self, database: &Database, key: &Arc<str>) -> Result<(Arc<Known>, Arc<Meters>)> {
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some(read) = &read
            && read.at.elapsed() < Self::AGE
        {
            return Ok((read.known.clone(), read.meters.clone()));
        }
        let known = Arc::new(Known::read(database, key).await?);
        let meters = read.map_or_else(|| Arc::new(Meters::new(key)), |read| read.meters);
        let fresh = Read { at: Instant::now(), known: known.clone(), meters: meters.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), fresh);
        Ok((known, meters))
    }
}
