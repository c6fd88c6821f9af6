//! Builds a worker and starts its parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::feed::Feed;
use super::hand_over::HandOver;
use super::handler::{AnyHandler, BatchHandler, Handler, Many, One};
use super::kind::Kind;
use super::lease::{self, Lease};
use super::log::LogSink;
use super::progress::ProgressSink;
use super::running::{HeldJobs, Running};
use super::settler::Settler;
use super::{Shared, Worker};
use crate::attempt::known::Known;
use crate::error::{Error, Result};
use crate::keeper::{Keeper, KeeperSettings};
use crate::queue::Queue;
use crate::queue::identity::{hostname, new_worker_id};
use crate::queue::listen;
use crate::store;
use crate::store::database::Database;
use crate::store::worker::WorkerRegistration;
use crate::telemetry::{self, Events, Meters};
use crate::text::redact::Redactor;

/// Settings of a worker; the defaults suit jobs of about a second.
pub struct WorkerBuilder {
    queue: Queue,
    handlers: Vec<Arc<dyn AnyHandler>>,
    queues: Option<Vec<String>>,
    concurrency: usize,
    prefetch: usize,
    lease: Duration,
    heartbeat: Option<Duration>,
    poll_interval: Duration,
    grace: Duration,
    keeper: Option<KeeperSettings>,
    metadata: serde_json::Value,
    redactor: Redactor,
    places: Arc<HeldJobs>,
    #[cfg(feature = "commands")]
    runs_commands: bool,
}

impl WorkerBuilder {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            queue,
            handlers: Vec::new(),
            queues: None,
            concurrency: 10,
            prefetch: 0,
            lease: Duration::from_secs(30),
            heartbeat: None,
            poll_interval: Duration::from_secs(1),
            grace: Duration::from_secs(30),
            keeper: Some(KeeperSettings::default()),
            metadata: serde_json::json!({}),
            redactor: Redactor::default(),
            places: Arc::default(),
            #[cfg(feature = "commands")]
            runs_commands: false,
        }
    }

    /// Returns the keys of the definitions that it has handlers for.
    #[cfg(feature = "testing")]
    pub(crate) fn keys(&self) -> Vec<String> {
        self.handlers.iter().map(|handler| handler.definition().key().to_owned()).collect()
    }

    /// Adds a handler. Starting the worker creates or updates its definition.
    #[must_use]
    pub fn handler<H: Handler>(mut self, handler: H) -> Self {
        self.handlers.push(Arc::new(One(handler)));
        self
    }

    /// Adds a handler that runs several jobs at a time.
    #[must_use]
    pub fn batch_handler<H: BatchHandler>(mut self, handler: H) -> Self {
        self.handlers.push(Arc::new(Many(handler)));
        self
    }

    /// Adds a handler that calls an HTTP endpoint.
    #[cfg(feature = "http-jobs")]
    pub fn http(mut self, key: &str, endpoint: &super::http::HttpEndpoint) -> Result<Self> {
        let kind = super::http::HttpKind::new(key, endpoint)?;
        self.redactor = self.redactor.with_values(kind.secrets());
        self.handlers.push(Arc::new(kind));
        Ok(self)
    }

    /// Adds the handlers of a worker's configuration file, and its settings.
    #[cfg(any(feature = "commands", feature = "http-jobs"))]
    pub fn file(mut self, file: super::WorkerFile) -> Result<Self> {
        self.concurrency = file.concurrency.unwrap_or(self.concurrency);
        self.prefetch = file.prefetch.unwrap_or(self.prefetch);
        self.queues = file.queues.or(self.queues);
        self.lease = file.lease.unwrap_or(self.lease);
        self.grace = file.grace.unwrap_or(self.grace);
        #[cfg(feature = "http-jobs")]
        for (key, endpoint) in &file.http {
            self = self.http(key, endpoint)?;
        }
        #[cfg(feature = "commands")]
        {
            self = self.commands(file.commands);
        }
        Ok(self)
    }

    /// Adds the commands of a worker's configuration file ([`super::WorkerFile`]). The program must call
    /// [`super::run_shim_if_asked`] at the start of `main`.
    #[cfg(feature = "commands")]
    #[must_use]
    pub fn commands(mut self, commands: impl IntoIterator<Item = super::CommandSpec>) -> Self {
        let handlers = super::command::handlers(commands.into_iter().inspect(|command| {
            self.redactor = self.redactor.and(&command.redactor.values_only());
        }));
        self.runs_commands |= !handlers.is_empty();
        self.handlers.extend(handlers);
        self
    }

    /// Restricts the worker to these queues.
    #[must_use]
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the maximum number of running jobs (default 10). Without [`Self::prefetch`] it holds no more than that, so
    /// that no job waits for a busy worker while another is idle.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs.max(1);
        self
    }

    /// Sets how many jobs it may hold in addition to the running ones (default 0): ends that are being written, and
    /// prefetched jobs. It prefetches only as many as it will start within about 20 ms at its present rate, so long
    /// jobs are never prefetched, and releases jobs that it could not start within a second, or when it stops. For jobs
    /// of a few milliseconds.
    #[must_use]
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.prefetch = jobs;
        self
    }

    /// Takes over from another worker of this process, which still finishes its running jobs: together they run no more
    /// than this one's concurrency.
    #[must_use]
    pub fn taking_over_from(mut self, worker: &Worker) -> Self {
        self.places = worker.shared.running.places().clone();
        self
    }

    /// Sets the lease: how long it holds its jobs after its last heartbeat (default 30 s), in whole seconds, at most a day.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Duration::from_secs(lease.as_secs().clamp(1, 86_400));
        self
    }

    /// Sets how often it renews its lease (default a third of it).
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = Some(every);
        self
    }

    /// Sets the poll interval: how long an idle worker sleeps without a notification (default 1 s).
    #[must_use]
    pub fn poll_interval(mut self, every: Duration) -> Self {
        self.poll_interval = every.max(Duration::from_millis(10));
        self
    }

    /// Sets how long [`Worker::stop`] lets runs finish (default 30 s).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the settings of the keeper in this worker.
    #[must_use]
    pub fn keeper(mut self, settings: KeeperSettings) -> Self {
        self.keeper = Some(settings);
        self
    }

    /// Does not run the keeper in this process.
    #[must_use]
    pub fn without_keeper(mut self) -> Self {
        self.keeper = None;
        self
    }

    /// Sets the secrets that are redacted in errors, results, progress and logs of its jobs.
    #[must_use]
    pub fn redact(mut self, redactor: &Redactor) -> Self {
        self.redactor = self.redactor.and(redactor);
        self
    }

    /// Sets metadata, shown with the worker.
    #[must_use]
    pub fn metadata(mut self, metadata: serde_json::Value) -> Self {
        self.metadata = metadata;
        self
    }

    /// Registers the definitions and the worker, and starts to claim jobs.
    pub async fn start(self) -> Result<Worker> {
        if self.handlers.is_empty() {
            return Err(Error::NoHandlers);
        }
        #[cfg(feature = "commands")]
        if self.runs_commands {
            super::command::check_program()?;
        }
        let roles = ["windlass_worker", "windlass_keeper"];
        self.queue.require_roles(if self.keeper.is_some() { &roles } else { &roles[..1] }).await?;
        let kinds = self.define().await?;
        let keys: Vec<String> = kinds.keys().map(ToString::to_string).collect();
        let settings = self.queue.settings().clone();
        let hostname = hostname();
        let me = WorkerRegistration {
            worker_id: new_worker_id(&hostname),
            hostname,
            queues: self.queues.clone(),
            definition_keys: keys.clone(),
            lease_seconds: i32::try_from(self.lease.as_secs()).unwrap_or(i32::MAX),
            metadata: self.metadata.to_string(),
        };
        let worker = store::worker::register(self.queue.database(), &me).await?;

        let (wakes, _) = broadcast::channel(4096);
        let keeper_wakes = wakes.clone();
        let (ended, to_settle) = mpsc::unbounded_channel();
        let running = Arc::new(Running::new(self.concurrency, self.places));
        let lease = Arc::new(Lease::new(worker, self.lease));
        let events = Events::default();
        let give_up = CancellationToken::new();
        // A separate pool, so that an application that exhausts the queue's pool cannot block a worker. One connection
        // each for the feed, the settler, its delayed ends, and everything else.
        let database = Database::for_engine(&settings, 4, self.lease)?;
        let logs = Arc::new(LogSink::new(database.clone()));
        let progress = Arc::new(ProgressSink::new(database.clone()));
        let shared = Arc::new(Shared {
            queue: self.queue.clone(),
            worker_id: me.worker_id.as_str().into(),
            keys,
            queues: self.queues.clone(),
            prefetch: self.prefetch,
            poll_interval: self.poll_interval,
            patience: self.lease,
            listens: settings.listen,
            kinds,
            running: running.clone(),
            lease: lease.clone(),
            runs: TaskTracker::new(),
            ended: RwLock::new(Some(ended)),
            progress: progress.clone(),
            logs: logs.clone(),
            hand_over: HandOver::new(database.clone()),
            redactor: self.redactor,
            events: events.clone(),
            stop_claiming: CancellationToken::new(),
            stop_duties: CancellationToken::new(),
            stop_keeping: CancellationToken::new(),
            _wakes: wakes.clone(),
        });

        let settler = Settler {
            database: database.clone(),
            running: running.clone(),
            events,
            worker_id: shared.worker_id.clone(),
            give_up: give_up.clone(),
            claims_ahead: self.prefetch > 0,
            patience: self.lease,
            refused: Mutex::default(),
        };
        let heartbeat = self.heartbeat.unwrap_or(self.lease / 3);
        let lease_thread = lease::LeaseThread {
            settings: settings.clone(),
            me,
            interval: heartbeat,
            lease,
            running,
            stop: shared.stop_keeping.clone(),
        }
        .start()?;
        let feed = tokio::spawn(Feed::new(shared.clone(), database.clone(), wakes.subscribe()).run());
        let mut tasks = vec![
            tokio::spawn({
                let stop = shared.stop_keeping.clone();
                async move { progress.run(stop).await }
            }),
            tokio::spawn(refresh(shared.clone(), database)),
            tokio::spawn({
                let stop = shared.stop_keeping.clone();
                async move { logs.run(stop).await }
            }),
        ];
        if settings.listen {
            let stop = shared.stop_keeping.clone();
            tasks.push(tokio::spawn(listen::listen(
                settings.direct.clone(),
                wakes,
                shared.lease.clone(),
                stop,
            )));
        }
        if let Some(keeper) = self.keeper {
            let keeper = Keeper::new(self.queue.clone(), keeper).woken_by(keeper_wakes);
            tasks.push(tokio::spawn(keeper.run(shared.stop_duties.clone())));
        }
        Ok(Worker {
            shared,
            feed: Some(feed),
            tasks,
            settler: Some(tokio::spawn(settler.run(to_settle))),
            lease_thread: Some(lease_thread),
            give_up,
            grace: self.grace,
        })
    }

    async fn define(&self) -> Result<HashMap<Arc<str>, Kind>> {
        let database = self.queue.database();
        let mut kinds = HashMap::with_capacity(self.handlers.len());
        for handler in &self.handlers {
            let definition = handler.definition();
            definition.check()?;
            store::definition::define(database, &definition).await?;
            let known = Known::read(database, definition.key()).await?;
            let key: Arc<str> = definition.key().into();
            let kind = Kind {
                handler: handler.clone(),
                known: RwLock::new(Arc::new(known)),
                meters: Arc::new(Meters::new(definition.key())),
            };
            if kinds.insert(key, kind).is_some() {
                return Err(Error::HandlerTwice { key: definition.key().to_owned() });
            }
        }
        Ok(kinds)
    }
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}

/// Reads the policies again periodically, so that an edited definition takes effect without a restart.
async fn refresh(shared: Arc<Shared>, database: Database) {
    const EVERY: Duration = Duration::from_secs(5);
    loop {
        tokio::select! {
            () = shared.stop_keeping.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        metrics::gauge!("windlass_running").set(shared.running.running() as f64);
        for (key, kind) in &shared.kinds {
            match Known::read(&database, key).await {
                Ok(known) => {
                    *kind.known.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(known);
                }
                Err(error) => telemetry::database_error("definitions", &error),
            }
        }
    }
}
