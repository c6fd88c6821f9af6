//! Running jobs: the settings of a [`Worker`], and handlers that are commands or HTTP endpoints.
//!
//! ```no_run
//! # use windlass::{Context, Done, Failure, Handler, JobArgs, Queue, Worker};
//! # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! # struct Resize {}
//! # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
//! # struct Resizer;
//! # impl Handler for Resizer {
//! #     type Args = Resize;
//! #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
//! # }
//! # async fn example(queue: &Queue) -> windlass::Result<()> {
//! use std::time::Duration;
//!
//! let worker = Worker::builder(queue)
//!     .handler(Resizer)
//!     .queues(["images"])
//!     .concurrency(50)
//!     .grace(Duration::from_secs(60))
//!     .start()
//!     .await?;
//! let mut moves = worker.subscribe();
//! if let Ok(transition) = moves.recv().await {
//!     println!("{} is {}", transition.job_id, transition.to);
//! }
//! worker.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # How a worker stops
//!
//! [`Worker::stop`] claims no more jobs, waits for running jobs for the grace time, stops the others and returns them to the queue
//! without counting a failure, writes every result, and unregisters the worker. [`Worker::abort`] (a second signal) does not wait:
//! jobs that are still running return to the queue once the lease has expired. A worker that is dropped is aborted.
//!
//! # Its parts
//!
//! Each is a file below: the `feed` claims and starts runs, each run is a task, the `settler` writes their results, the `lease` thread
//! renews the lease, and the keeper does the maintenance of the queue.

mod builder;
#[cfg(feature = "commands")]
mod command;
pub(crate) mod context;
mod feed;
#[cfg(any(feature = "commands", feature = "http-jobs"))]
mod file;
mod hand_over;
mod handled;
pub(crate) mod handler;
#[cfg(feature = "http-jobs")]
pub(crate) mod http;
mod lease;
mod log;
mod pace;
mod progress;
mod run;
mod running;
mod settler;
#[cfg(any(feature = "sqlx-08", feature = "sqlx-09"))]
pub(crate) mod sqlx;
mod start;
#[cfg(feature = "testing")]
pub(crate) mod trial;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use parking_lot::RwLock;
use tokio::sync::{SemaphorePermit, broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use crate::telemetry::Transition;
pub use builder::WorkerBuilder;
#[cfg(feature = "commands")]
pub use command::{CommandSpec, run_shim_if_requested};
pub use context::Completion;
#[cfg(any(feature = "commands", feature = "http-jobs"))]
pub use file::WorkerFile;
#[cfg(feature = "http-jobs")]
pub use http::{HttpEndpoint, Lookup, SecretText};

use crate::model::job::claimed::Claimed;
use hand_over::HandOver;
use handled::{DefinitionSnapshot, HandledDefinition};
use lease::Lease;
use log::LogSink;
use progress::ProgressSink;
use run::JobCall;
use running::{Reserved, Running, Slot, Stop, Switch};
use settler::UnsettledAttempt;

use crate::attempt::run_result::RunResult;
use crate::error::Result;
use crate::model::job::settle::{Outcome, Retry};
use crate::model::job::state::State;
use crate::queue::Queue;
use crate::store;
use crate::telemetry::Events;
use crate::text::redact::Redactor;

/// How long a prefetched job waits for its turn before it is released to other workers.
const CLAIMED_AHEAD: Duration = Duration::from_secs(1);

/// A running worker: it claims jobs of the definitions that it has handlers for, and runs them.
///
/// ```no_run
/// # use windlass::{Context, Done, Failure, Handler, JobArgs, Queue, Worker};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
/// # }
/// # async fn example(queue: &Queue) -> Result<(), Box<dyn std::error::Error>> {
/// let worker = Worker::builder(queue).handler(Resizer).concurrency(20).start().await?;
/// let mut transitions = worker.subscribe();
/// if let Ok(transition) = transitions.recv().await {
///     println!("{} moved a job to {}", worker.id(), transition.to);
/// }
///
/// tokio::signal::ctrl_c().await?;
/// // Claim no more jobs, and wait for the others; a second signal does not wait.
/// worker.drain();
/// println!("{} jobs left", worker.held_jobs());
/// tokio::select! {
///     stopped = worker.stop() => stopped?,
///     _ = tokio::signal::ctrl_c() => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    feed: Option<JoinHandle<()>>,
    tasks: Vec<JoinHandle<()>>,
    settler: Option<JoinHandle<()>>,
    lease_thread: Option<thread::JoinHandle<()>>,
    give_up: CancellationToken,
    grace: Duration,
}

impl Worker {
    /// Starts to configure a worker of this queue; add handlers to it, then call `start`.
    pub fn builder(queue: &Queue) -> WorkerBuilder {
        WorkerBuilder::new(queue.clone())
    }

    /// `hostname:pid:boot-uuid`, as in `windlass.job_workers`.
    pub fn id(&self) -> &str {
        &self.shared.worker_id
    }

    /// Jobs that this worker holds: running, prefetched, and ended but not yet settled.
    pub fn held_jobs(&self) -> usize {
        self.shared.running.taken()
    }

    /// Subscribes to the transitions of this worker. A slow subscriber misses some.
    pub fn subscribe(&self) -> broadcast::Receiver<Transition> {
        self.shared.events.subscribe()
    }

    /// Drains the worker: it claims no more jobs and finishes those it holds. Its keeper continues until it is stopped.
    pub fn drain(&self) {
        self.shared.stop_claiming.cancel();
    }

    /// Stops gracefully: see the module.
    pub async fn stop(mut self) -> Result<()> {
        self.drain();
        self.shared.stop_duties.cancel();
        self.shared.runs.close();
        let mut feed = self.feed.take();
        let finish = async {
            // A claim in progress still starts its runs, which must be awaited too.
            if let Some(feed) = &mut feed {
                let _ = feed.await;
            }
            self.shared.runs.wait().await;
        };
        if tokio::time::timeout(self.grace, finish).await.is_err() {
            if let Some(feed) = feed {
                feed.abort();
            }
            self.shared.running.stop_all(Stop::Shutdown);
            self.shared.runs.wait().await;
        }
        self.shared.ended.write().take();
        if let Some(settler) = self.settler.take() {
            // A task that panicked has logged it; the others still have to be awaited.
            let _ = settler.await;
        }
        self.shared.stop_keeping.cancel();
        for task in self.tasks.drain(..) {
            let _ = task.await;
        }
        if let Some(thread) = self.lease_thread.take() {
            // The thread wakes on the token above; joining it here would block the runtime for a moment.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        // Only now: a heartbeat after the deregistration would renew the lease of a stopped worker.
        store::worker::stop(self.shared.queue.database(), self.shared.lease.worker()).await
    }

    /// Stops immediately, without waiting for running jobs.
    ///
    /// ```no_run
    /// # async fn example(worker: windlass::Worker) -> windlass::Result<()> {
    /// // For example if the process must end within a second.
    /// worker.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort(self) {
        drop(self);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.drain();
        self.shared.stop_duties.cancel();
        self.give_up.cancel();
        self.shared.stop_keeping.cancel();
        self.shared.running.stop_all(Stop::Shutdown);
        for task in self.tasks.iter().chain(&self.feed) {
            task.abort();
        }
        if let Some(settler) = &self.settler {
            settler.abort();
        }
    }
}

/// The state that the parts of one worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Queue,
    worker_id: Arc<str>,
    keys: Vec<String>,
    queues: Option<Vec<String>>,
    prefetch: usize,
    poll_interval: Duration,
    /// A claim or settlement without a response within a lease is sent again on another connection.
    patience: Duration,
    listens: bool,
    definitions: HashMap<Arc<str>, HandledDefinition>,
    running: Arc<Running>,
    lease: Arc<Lease>,
    runs: TaskTracker,
    /// `None` once the worker stops, so that the settler ends after the last run.
    ended: RwLock<Option<mpsc::UnboundedSender<UnsettledAttempt>>>,
    progress: Arc<ProgressSink>,
    logs: Arc<LogSink>,
    hand_over: HandOver,
    /// Removes secrets from every stored text of a run.
    redactor: Redactor,
    events: Events,
    stop_claiming: CancellationToken,
    /// Stops the keeper. Not canceled by a drain: this keeper may be the only one.
    stop_duties: CancellationToken,
    stop_keeping: CancellationToken,
    _wakes: broadcast::Sender<crate::queue::listen::Wake>,
}

impl Shared {
    /// Starts a run for every job, in calls as large as its handler accepts. A call may fail as a whole, and its error may
    /// contain any payload of it, so all its jobs have the same tenant. A job whose own deadline may end the call before
    /// the timeout has a call of its own, because the attempts of the others would end too.
    fn start(self: &Arc<Self>, claimed: impl Iterator<Item = Claimed>, reserved: &mut Reserved) {
        let mut waiting: HashMap<(Uuid, Arc<str>), Vec<Claimed>> = HashMap::new();
        for job in claimed {
            let Some(handled) = self.definitions.get(&job.definition_key) else { continue };
            handled.meters.claimed.increment(1);
            handled.meters.queue_seconds.record(job.queued_ms.max(0) as f64 / 1000.0);
            if self.events.has_subscribers() {
                self.report_claimed(&job);
            }
            let batch = handled.handler.batch().min(self.running.capacity());
            if batch == 1 || handled.snapshot().compiled.has_own_deadline(&job, CLAIMED_AHEAD) {
                self.spawn(handled, vec![job], reserved);
                continue;
            }
            let key = (job.fence.tenant, job.definition_key.clone());
            let gathered = waiting.entry(key).or_default();
            gathered.push(job);
            if gathered.len() == batch {
                self.spawn(handled, std::mem::take(gathered), reserved);
            }
        }
        for ((_, key), jobs) in waiting {
            if let Some(handled) = self.definitions.get(&key)
                && !jobs.is_empty()
            {
                self.spawn(handled, jobs, reserved);
            }
        }
    }

    fn spawn(self: &Arc<Self>, handled: &HandledDefinition, jobs: Vec<Claimed>, reserved: &mut Reserved) {
        let places = self.running.start(jobs.iter().map(|job| job.fence), reserved);
        let snapshot = handled.snapshot();
        let ended = self.ended.read().clone();
        let shared = self.clone();
        let jobs: Vec<Arc<Claimed>> = jobs.into_iter().map(Arc::new).collect();
        let claimed_at = Instant::now();
        self.runs.spawn(async move {
            let Some(turn) = shared.turn(&places).await else {
                return shared.release(ended.as_ref(), &snapshot, jobs, &places);
            };
            let started = Instant::now();
            let waited = started - claimed_at;
            let mut call = JobCall { jobs, places, waited, ended: Vec::new(), done: 0 };
            let run = AssertUnwindSafe(run::run_all(&shared, &snapshot, &mut call));
            if let Err(panic) = run.catch_unwind().await {
                run::discard(panic);
                // Panics of the handler are caught where it is called; this one came from a value that it left behind.
                let broke = |(claimed, (slot, _)): (&Arc<Claimed>, &(Slot, Switch))| {
                    let result = RunResult::failed(
                        Retry::ByPolicy,
                        "the worker panicked while it settled the attempt",
                    );
                    snapshot.end(claimed.clone(), *slot, result, started.elapsed())
                };
                call.ended.extend(call.jobs.iter().zip(&call.places).skip(call.done).map(broke));
            }
            drop(turn);
            shared.running.count_ended(call.jobs.len());
            for one in call.ended {
                // `None` only if the worker was aborted; then the reaper ends this attempt.
                if let Some(ended) = &ended {
                    let _ = ended.send(one);
                }
            }
        });
    }

    /// Waits until these jobs may run. Returns `None` if they must be released: the worker stops, they were requested
    /// to stop, or the running jobs take so long that another worker may have them.
    async fn turn(&self, places: &[(Slot, Switch)]) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            turn = self.running.turn(places.len()) => turn,
            () = self.stop_claiming.cancelled() => None,
            _ = places[0].1.stopped() => None,
            () = tokio::time::sleep(CLAIMED_AHEAD) => None,
        }
    }

    /// Ends attempts that were never started.
    fn release(
        &self,
        ended: Option<&mpsc::UnboundedSender<UnsettledAttempt>>,
        snapshot: &DefinitionSnapshot,
        jobs: Vec<Arc<Claimed>>,
        places: &[(Slot, Switch)],
    ) {
        for (claimed, (slot, switch)) in jobs.into_iter().zip(places) {
            let result = match switch.reason() {
                Some(Stop::Canceled) => RunResult::stopped(Stop::Canceled),
                _ => RunResult::of(Outcome::Released, "prefetched and not started"),
            };
            let one = snapshot.end(claimed, *slot, result, Duration::ZERO);
            if let Some(ended) = ended {
                let _ = ended.send(one);
            }
        }
    }

    fn report_claimed(&self, job: &Claimed) {
        self.events.send(Transition {
            tenant_id: job.fence.tenant,
            job_id: job.fence.job,
            definition_key: job.definition_key.clone(),
            attempt_no: job.fence.attempt,
            worker_id: self.worker_id.clone(),
            from: State::Queued,
            to: State::Running,
            by: crate::model::job::state::MovedBy::Claim,
            outcome: None,
            ran: None,
            queued: job.queued(),
            trace: job.trace(),
        });
    }
}
