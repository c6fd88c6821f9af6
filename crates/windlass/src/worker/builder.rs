//! The settings of a worker, before it is started.

use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use super::handler::{AnyHandler, BatchHandler, Handler, Many, One};
use super::running::HeldJobs;
use crate::error::Result;
use crate::keeper::KeeperSettings;
use crate::queue::Queue;
use crate::text::redact::Redactor;

/// Settings of a worker; the defaults suit jobs of about a second.
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
/// use std::time::Duration;
/// use windlass::keeper::KeeperSettings;
/// use windlass::redact::Redactor;
///
/// let worker = Worker::builder(queue)
///     .handler(Resizer)
///     .queues(["images"])
///     .concurrency(50)
///     .prefetch(100)
///     .lease(Duration::from_secs(60))
///     .heartbeat(Duration::from_secs(15))
///     .poll_interval(Duration::from_secs(2))
///     .grace(Duration::from_secs(20))
///     .keeper(KeeperSettings::default())
///     .redact(&Redactor::new(["a secret of the process"], Vec::<&str>::new())?)
///     .metadata(serde_json::json!({ "version": "1.4.0" }))
///     .start()
///     .await?;
///
/// // With other settings, without running more jobs at the same time than before.
/// let successor = Worker::builder(queue).handler(Resizer).without_keeper().taking_over_from(&worker).start().await?;
/// worker.stop().await?;
/// # successor.stop().await?;
/// # Ok(())
/// # }
/// ```
pub struct WorkerBuilder {
    pub(super) queue: Queue,
    pub(super) handlers: Vec<Arc<dyn AnyHandler>>,
    pub(super) queues: Option<Vec<String>>,
    pub(super) concurrency: usize,
    pub(super) prefetch: usize,
    pub(super) lease: Duration,
    pub(super) heartbeat: Option<Duration>,
    pub(super) poll_interval: Duration,
    pub(super) grace: Duration,
    pub(super) keeper: Option<KeeperSettings>,
    pub(super) metadata: serde_json::Value,
    pub(super) redactor: Redactor,
    pub(super) places: Arc<HeldJobs>,
    #[cfg(feature = "commands")]
    pub(super) runs_commands: bool,
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
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// # use windlass::{BatchHandler, Context, Done, Failure, JobArgs, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Index {}
    /// # impl JobArgs for Index { const KEY: &'static str = "index"; }
    /// struct Indexer;
    ///
    /// impl BatchHandler for Indexer {
    ///     type Args = Index;
    ///     const BATCH: usize = 100;
    ///
    ///     async fn run(&self, jobs: Vec<(Context, Index)>) -> Vec<Result<Done, Failure>> {
    ///         // One request for all of them.
    ///         jobs.iter().map(|_| Ok(Done::new())).collect()
    ///     }
    /// }
    ///
    /// let worker = Worker::builder(queue).batch_handler(Indexer).start().await?;
    /// # worker.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn batch_handler<H: BatchHandler>(mut self, handler: H) -> Self {
        self.handlers.push(Arc::new(Many(handler)));
        self
    }

    /// Adds a handler that calls an HTTP endpoint.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::Worker;
    /// use windlass::worker::HttpEndpoint;
    ///
    /// let worker = Worker::builder(queue).http("resize", &HttpEndpoint::new("https://images.example/jobs"))?.start().await?;
    /// # worker.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "http-jobs")]
    pub fn http(mut self, key: &str, endpoint: &super::http::HttpEndpoint) -> Result<Self> {
        let kind = super::http::HttpKind::new(key, endpoint)?;
        self.redactor = self.redactor.with_values(kind.secrets());
        self.handlers.push(Arc::new(kind));
        Ok(self)
    }

    /// Adds the handlers of a worker's configuration file, and its settings.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use std::path::Path;
    /// use windlass::Worker;
    /// use windlass::worker::WorkerFile;
    ///
    /// let file = WorkerFile::read(Path::new("/etc/windlass/worker.toml"))?;
    /// let worker = Worker::builder(queue).file(file)?.start().await?;
    /// # worker.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
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
    /// [`super::run_shim_if_requested`] at the start of `main`.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::Worker;
    /// use windlass::worker::WorkerFile;
    ///
    /// let file = WorkerFile::parse("worker.toml", "[commands.hello]\nargv = [\"/bin/echo\", \"hello\"]\n")?;
    /// let worker = Worker::builder(queue).commands(file.commands).start().await?;
    /// # worker.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
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
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}
