//! `windlass worker`.
//!
//! How it stops: ctrl-C or SIGTERM lets what runs finish for the grace time and gives the rest back; a second one ends it at
//! once. SIGUSR1 takes nothing new. SIGHUP reads the file again: a new worker takes over with it, and the old one finishes
//! what it has, in slots that both share; a file with a mistake changes nothing.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::task::JoinSet;
use windlass::worker::WorkerFile;
use windlass::{AttemptOutcome, Queue, Transition};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{Beside, Signals};
use crate::config::{Configuration, Sources};

/// Runs jobs: commands and HTTP calls, as its own file describes them.
///
/// The file given with --config holds [commands.KEY] and [http.KEY]; a settings file of the whole process may name it as `file`
/// under [worker] instead. SIGUSR1 makes it quiet, SIGHUP reads the file again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass worker --config worker.toml --concurrency 20 --queues default,media\n  windlass worker --config worker.toml --check"
)]
pub struct Worker {
    /// How many jobs it runs at once
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,

    /// The queues it serves, all if none is named
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',')]
    queues: Option<Vec<String>>,

    /// Leaves the housekeeping to others
    #[arg(long)]
    no_keeper: bool,

    /// Reads the file, says what it can run, and ends
    #[arg(long)]
    check: bool,
}

impl Worker {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let (path, settings_file) = files(global)?;
        let configuration = settings(global, settings_file.as_deref())?;
        let path = path.or_else(|| configuration.worker.file.clone()).ok_or_else(|| {
            Failure::usage("no file says what this worker can run")
                .advise("--config FILE; docs/commands.md shows one")
        })?;
        let file = read(&path)?;
        if self.check {
            print::line(format!("{}: good; it runs {}", path.display(), file.keys().join(", ")))?;
            return Ok(Exit::Success);
        }
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        let (mut quiet, mut hang_up) = (signal(SignalKind::user_defined1())?, signal(SignalKind::hangup())?);
        let queue = self.connect(database(global, &configuration, &file)?).await?;
        let beside = Beside::start(&configuration, &queue).await?;

        let mut worker = self.start(&queue, &configuration, file, None).await?;
        print::line(format!("ready: {}", worker.id()))?;
        let mut view = View::new();
        let mut moves = worker.subscribe();
        let mut retiring = JoinSet::new();
        loop {
            tokio::select! {
                () = signals.next() => break,
                _ = quiet.recv() => {
                    worker.quiet();
                    tracing::info!(held_jobs = worker.held_jobs(), "quiet: taking nothing new");
                }
                _ = hang_up.recv() => match self.reload(&queue, &configuration, &path, &worker).await {
                    Ok(new) => {
                        tracing::info!(worker_id = new.id(), file = %path.display(), "the file was read again");
                        moves = new.subscribe();
                        retiring.spawn(retire(std::mem::replace(&mut worker, new)));
                    }
                    Err(failure) => tracing::error!(%failure, "the file was not taken over; going on as before"),
                },
                told = next(&mut moves) => view.tell(&worker, &told),
                Some(_) = retiring.join_next(), if !retiring.is_empty() => {}
            }
        }
        view.finish();
        tracing::info!(
            held_jobs = worker.held_jobs(),
            "stopping: letting running jobs finish; a second signal ends at once"
        );
        let gracefully = async {
            let stopped = worker.stop().await;
            while retiring.join_next().await.is_some() {}
            stopped
        };
        tokio::select! {
            stopped = gracefully => stopped?,
            () = signals.next() => return Ok(Exit::Interrupted),
        }
        beside.stop().await;
        Ok(Exit::Success)
    }

    async fn reload(
        &self,
        queue: &Queue,
        configuration: &Configuration,
        path: &Path,
        old: &windlass::Worker,
    ) -> Result<windlass::Worker, Failure> {
        self.start(queue, configuration, read(path)?, Some(old)).await
    }

    async fn connect(&self, settings: windlass::Settings) -> Result<Queue, Failure> {
        let roles = ["windlass_worker", "windlass_keeper"];
        let roles = if self.no_keeper { &roles[..1] } else { &roles };
        Queue::connect_as(settings, roles).await.map_err(|error| match &error {
            windlass::Error::MissingRole { roles, .. } if roles == "windlass_keeper" => {
                Failure::from(error).advise("or `--no-keeper`, where another process does the housekeeping")
            }
            _ => Failure::from(error),
        })
    }

    async fn start(
        &self,
        queue: &Queue,
        configuration: &Configuration,
        file: WorkerFile,
        old: Option<&windlass::Worker>,
    ) -> Result<windlass::Worker, Failure> {
        let mut builder = windlass::Worker::builder(queue)
            .concurrency(configuration.worker.concurrency)
            .grace(Duration::from_secs(configuration.worker.grace_seconds))
            .metadata(json!({"role": "worker", "kinds": file.keys()}))
            .file(file)?;
        if let Some(concurrency) = self.concurrency {
            builder = builder.concurrency(concurrency);
        }
        if let Some(queues) = &self.queues {
            builder = builder.queues(queues);
        }
        if let Some(old) = old {
            builder = builder.taking_over_from(old);
        }
        if self.no_keeper {
            builder = builder.without_keeper();
        }
        Ok(builder.start().await?)
    }
}

/// A worker with the file that the settings name, for processes that run more than a worker.
pub(super) async fn beside(
    queue: &Queue,
    configuration: &Configuration,
    path: &Path,
) -> Result<windlass::Worker, Failure> {
    let none = Worker { concurrency: None, queues: None, no_keeper: true, check: false };
    none.start(queue, configuration, read(path)?, None).await
}

fn read(path: &Path) -> Result<WorkerFile, Failure> {
    WorkerFile::read(path).map_err(|mistake| Failure::usage(mistake.to_string()))
}

/// The worker's own file and that of the process, whichever of them --config names.
fn files(global: &Global) -> Result<(Option<PathBuf>, Option<PathBuf>), Failure> {
    let Some(path) = &global.config else { return Ok((None, None)) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{}: cannot be read: {error}", path.display())))?;
    // A file with a mistake is read as what it most likely is, so that the mistake is told.
    let is_settings = !WorkerFile::is_one(&text) && !text.contains("[commands.") && text.contains("file");
    Ok(if is_settings { (None, Some(path.clone())) } else { (Some(path.clone()), None) })
}

fn settings(global: &Global, file: Option<&Path>) -> Result<Configuration, Failure> {
    let url = global.database_url.clone().map(|url| ("database.url", "--database-url", url));
    let sources = Sources { flags: url.into_iter().collect(), variables: Sources::environment(), file };
    Ok(crate::config::load(&sources).map_err(|mistakes| super::mistaken(&mistakes))?.configuration)
}

/// Flags and variables go before the file, as everywhere.
fn database(
    global: &Global,
    configuration: &Configuration,
    file: &WorkerFile,
) -> Result<windlass::Settings, Failure> {
    match (&configuration.database.url, &file.database_url) {
        (None, Some(url)) => {
            Ok(windlass::Settings::new(url)?.connections(configuration.database.connections))
        }
        _ => global.database(configuration),
    }
}

/// Lets a worker that was replaced finish what it has, however long that takes.
async fn retire(worker: windlass::Worker) {
    worker.quiet();
    while worker.held_jobs() > 0 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    if let Err(error) = worker.stop().await {
        tracing::warn!(%error, "the worker that was replaced could not say goodbye");
    }
}

/// The next move, or that some were missed.
async fn next(moves: &mut Receiver<Transition>) -> Option<Transition> {
    match moves.recv().await {
        Ok(told) => Some(told),
        Err(RecvError::Lagged(_)) => None,
        // The worker outlives its subscribers, so this is never the end.
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

/// What a person at a terminal sees: one line that moves. Elsewhere the log tells.
struct View {
    bar: Option<ProgressBar>,
    succeeded: u64,
    other: u64,
}

impl View {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar.set_message("waiting for jobs");
            bar
        });
        Self { bar, succeeded: 0, other: 0 }
    }

    fn tell(&mut self, worker: &windlass::Worker, told: &Option<Transition>) {
        let Some(told) = told else { return };
        let outcome = match told.outcome {
            None => "started",
            Some(outcome) => {
                let count =
                    if outcome == AttemptOutcome::Succeeded { &mut self.succeeded } else { &mut self.other };
                *count += 1;
                outcome.as_str()
            }
        };
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "{} jobs · {} succeeded · {} otherwise · {} {} {outcome}",
                worker.held_jobs(),
                self.succeeded,
                self.other,
                told.definition_key,
                told.job_id,
            ));
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
