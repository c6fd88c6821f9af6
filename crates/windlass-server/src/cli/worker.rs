//! `windlass worker`.
//!
//! How it stops: on ctrl-C or SIGTERM it lets running jobs finish for the grace time and releases the rest; a second signal ends
//! it immediately. SIGUSR1 drains it. SIGHUP reads the file again: a new worker takes over, and the old one finishes its jobs in
//! slots that both share; an invalid file changes nothing.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::task::JoinSet;
use windlass::Queue;
use windlass::job::AttemptOutcome;
use windlass::worker::Transition;
use windlass::worker::WorkerFile;

use super::Global;
use super::exit::{Exit, Failure};
use super::number::number;
use super::print;
use super::process::{Background, Signals};
use super::terminal;
use crate::config::{Configuration, Sources};

/// Run jobs as programs and HTTP calls, as described in a worker file.
///
/// The worker file has one [commands.KEY] or [http.KEY] section per job definition. Specify it with --config, or as `file` under
/// [worker] in the configuration file. SIGUSR1 drains the worker; SIGHUP reloads the file; SIGTERM or ctrl-C stops it after
/// its running jobs have finished.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass worker --config worker.toml --concurrency 20 --queues default,media\n  \
    windlass worker --config worker.toml --check\n\nA worker file with one job definition:\n  \
    [commands.sync-dropbox]\n  argv = [\"/usr/bin/zoltag\", \"sync\"]\n\ndocs/commands.md describes all its settings."
)]
pub(crate) struct WorkerCommand {
    /// The maximum number of jobs to run at the same time
    #[arg(long, value_name = "N", value_parser = number::<1, { u64::MAX }>)]
    concurrency: Option<u64>,

    /// The queues to claim jobs from [default: all]
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',')]
    queues: Option<Vec<String>>,

    /// Do not run the keeper in this process
    #[arg(long)]
    no_keeper: bool,

    /// Validate the worker file, print its definitions, and exit
    #[arg(long)]
    check: bool,
}

impl WorkerCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let (path, settings_file) = files(global)?;
        let configuration = settings(global, settings_file.as_deref())?;
        let path = path.or_else(|| configuration.worker.file.clone()).ok_or_else(|| {
            Failure::usage("no worker file is specified").advise("--config FILE, or `file` under [worker] in the configuration file; `windlass worker --help` shows an example")
        })?;
        let file = read(&path)?;
        if self.check {
            print::line(format!("{}: valid; handles {}", path.display(), file.keys().join(", ")))?;
            return Ok(Exit::Success);
        }
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        let (mut drain, mut hang_up) = (signal(SignalKind::user_defined1())?, signal(SignalKind::hangup())?);
        let queue = self.connect(database(global, &configuration, &file)?).await?;
        let background = Background::start(&configuration, &queue).await?;

        let mut worker = self.start(&queue, &configuration, file, None).await?;
        print::line(format!("ready: {}", worker.id()))?;
        let mut view = View::new();
        let mut transitions = worker.subscribe();
        let mut retiring = JoinSet::new();
        loop {
            tokio::select! {
                () = signals.next() => break,
                _ = drain.recv() => {
                    worker.drain();
                    tracing::info!(held_jobs = worker.held_jobs(), "draining: no new jobs are claimed");
                }
                _ = hang_up.recv() => match self.reload(&queue, &configuration, &path, &worker).await {
                    Ok(new) => {
                        tracing::info!(worker_id = new.id(), file = %path.display(), "reloaded the worker file");
                        transitions = new.subscribe();
                        retiring.spawn(retire(std::mem::replace(&mut worker, new)));
                    }
                    Err(failure) => tracing::error!(%failure, "cannot reload the worker file; continuing with the previous one"),
                },
                transition = next(&mut transitions) => view.update(&worker, transition.as_ref()),
                Some(_) = retiring.join_next(), if !retiring.is_empty() => {}
            }
        }
        view.finish();
        tracing::info!(
            held_jobs = worker.held_jobs(),
            "stopping: waiting for running jobs to finish; a second signal exits immediately"
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
        background.stop().await;
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
                Failure::from(error).advise("or `--no-keeper`, if another process runs the keeper")
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
            builder = builder.concurrency(usize::try_from(concurrency).unwrap_or(usize::MAX));
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

/// A worker with the worker file of the configuration, for processes that run more than a worker.
pub(super) async fn from_configuration(
    queue: &Queue,
    configuration: &Configuration,
    path: &Path,
) -> Result<windlass::Worker, Failure> {
    let none = WorkerCommand { concurrency: None, queues: None, no_keeper: true, check: false };
    none.start(queue, configuration, read(path)?, None).await
}

fn read(path: &Path) -> Result<WorkerFile, Failure> {
    WorkerFile::read(path).map_err(|error| Failure::usage(error.to_string()))
}

/// The worker file and the configuration file; `--config` names one of the two.
fn files(global: &Global) -> Result<(Option<PathBuf>, Option<PathBuf>), Failure> {
    let Some(path) = &global.config else { return Ok((None, None)) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    // An invalid file is read as the kind it most likely is, so that its error is reported.
    let is_settings = !WorkerFile::is_one(&text) && !text.contains("[commands.") && text.contains("file");
    Ok(if is_settings { (None, Some(path.clone())) } else { (Some(path.clone()), None) })
}

fn settings(global: &Global, file: Option<&Path>) -> Result<Configuration, Failure> {
    let url = global.database_url.clone().map(|url| ("database.url", "--database-url", url));
    let sources = Sources { flags: url.into_iter().collect(), variables: Sources::environment(), file };
    Ok(crate::config::load(&sources).map_err(|errors| super::invalid_configuration(&errors))?.configuration)
}

/// Flags and environment variables take precedence over the file.
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

/// Lets a replaced worker finish its running jobs, without a time limit.
async fn retire(worker: windlass::Worker) {
    worker.drain();
    while worker.held_jobs() > 0 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    if let Err(error) = worker.stop().await {
        tracing::warn!(%error, "the replaced worker did not stop cleanly");
    }
}

/// The next transition; none if some were missed.
async fn next(transitions: &mut Receiver<Transition>) -> Option<Transition> {
    match transitions.recv().await {
        Ok(transition) => Some(transition),
        Err(RecvError::Lagged(_)) => None,
        // The worker outlives its subscribers, so this is never the end.
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

/// The status line on a terminal. Without a terminal, the log reports the same.
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

    fn update(&mut self, worker: &windlass::Worker, transition: Option<&Transition>) {
        let Some(transition) = transition else { return };
        let outcome = match transition.outcome {
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
                "{} jobs · {} succeeded · {} other outcomes · {} {} {outcome}",
                worker.held_jobs(),
                self.succeeded,
                self.other,
                terminal::cell(&transition.definition_key),
                transition.job_id,
            ));
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
