//! `windlass up`: everything in one process, from an empty directory to running jobs.
//!
//! How it stops: on ctrl-C or SIGTERM the programs of an example and the producer of the demo end first, then the server accepts
//! no more requests, the worker lets its running jobs finish, the keeper ends, and the Postgres it started is shut down. A second
//! signal skips the waiting.

mod demo;
mod examples;
mod handlers;
mod private_file;
mod token;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use windlass::setup::embedded::{Options, Postgres};
use windlass::{Queue, Settings, Worker};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{self, Background, Signals};
use crate::auth::Secret;
use crate::config::Configuration;
use crate::server::Running;
use private_file::DatabaseUrlFile;

/// Run everything in one process, with its own Postgres and a demo.
///
/// It runs the API, the web UI, the keeper and a worker. The first start creates the data directory, two demo tenants and demo jobs; later starts continue with the same data. If a
/// database is configured (--database-url, DATABASE_URL or the configuration file), it uses that and starts no Postgres. The
/// token of the super-admin is written to DIR/admin-token, readable only by you; the other commands find it there.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass up\n  windlass up --example ai-tagging\n  windlass up --data-dir /var/lib/windlass --listen 0.0.0.0:8080 --no-demo"
)]
pub(crate) struct Up {
    /// The directory of the Postgres data and of the admin token
    #[arg(long, value_name = "DIR", default_value = ".windlass")]
    data_dir: PathBuf,

    /// The address to listen on, such as 127.0.0.1:8080; port 0 chooses a free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Do not create demo tenants and jobs
    #[arg(long)]
    no_demo: bool,

    /// Run an example instead of the demo: ai-tagging, tts, clipnest, call-transcription or zoltag
    #[arg(long, value_name = "NAME", conflicts_with = "no_demo")]
    example: Option<String>,
}

/// Everything that was started, in the order in which it is stopped.
struct Everything {
    example: Option<examples::RunningExample>,
    running: Running,
    parts: Parts,
}

/// What the server is started on.
struct Parts {
    workers: Vec<Worker>,
    background: Option<Background>,
    postgres: Option<Postgres>,
    url_file: Option<DatabaseUrlFile>,
}

impl Parts {
    async fn stop(self) -> Result<(), Failure> {
        let workers = stop_all(self.workers).await;
        if let Some(background) = self.background {
            background.stop().await;
        }
        if let Some(postgres) = self.postgres {
            postgres.stop().await?;
        }
        Ok(workers?)
    }
}

async fn stop_all(workers: Vec<Worker>) -> windlass::Result<()> {
    futures_util::future::try_join_all(workers.into_iter().map(Worker::stop)).await.map(drop)
}

impl Up {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let example = self.example.as_deref().map(examples::find).transpose()?;
        example.map_or(Ok(()), examples::Example::check_needs)?;
        let mut configuration =
            global.load(&[("http.listen", "--listen", self.listen.clone())])?.configuration;
        reduce_logging(&mut configuration);
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        std::fs::create_dir_all(&self.data_dir)
            .map_err(|error| Failure::usage(format!("cannot create {}: {error}", self.data_dir.display())))?;

        let mut everything = tokio::select! {
            started = self.start(global, &configuration, example) => started?,
            () = signals.next() => return Ok(Exit::Interrupted),
        };
        tokio::select! {
            () = signals.next() => {}
            status = everything.example_failure() => {
                print::note(format!("the example failed ({status}); see its output above; everything else keeps running"));
                signals.next().await;
            }
        }
        print::note("stopping: waiting for running jobs to finish (press ctrl-C again to exit immediately)");
        everything.stop(&configuration, &mut signals).await
    }

    async fn start(
        &self,
        global: &Global,
        configuration: &Configuration,
        example: Option<&examples::Example>,
    ) -> Result<Everything, Failure> {
        // Before Postgres is started, so that there is nothing to stop if the address is in use.
        let listener = process::bind(configuration).await?;
        let (settings, postgres) = self.database(global, configuration).await?;
        let mut parts = Parts { workers: Vec::new(), background: None, postgres, url_file: None };
        let started = self.start_on(configuration, example, settings, listener, &mut parts);
        match started.await {
            Ok((example, running)) => Ok(Everything { example, running, parts }),
            Err(failure) => {
                // Else Postgres would keep running, and the workers would be listed as lost. The reason why they could not
                // start is reported instead of one why they could not stop.
                let _ = parts.stop().await;
                Err(failure)
            }
        }
    }

    /// Starts everything on a database. The caller stops the parts if this fails.
    async fn start_on(
        &self,
        configuration: &Configuration,
        example: Option<&examples::Example>,
        settings: Settings,
        listener: TcpListener,
        parts: &mut Parts,
    ) -> Result<(Option<examples::RunningExample>, Running), Failure> {
        windlass::migrate(&settings).await?;
        if let Some(postgres) = &parts.postgres {
            parts.url_file = Some(DatabaseUrlFile::create(&self.data_dir, &postgres.url())?);
        }
        let app = process::app(configuration, settings).await?;
        let token_file = token::ensure(&app, &self.data_dir).await?;
        let background = parts.background.insert(Background::start(configuration, app.queue()).await?);
        self.start_workers(configuration, app.queue(), background, &mut parts.workers).await?;
        let running = process::serve(app, configuration, listener)?;
        let address = process::address(configuration, running.address());
        let start_example = |example: &examples::Example| {
            let given = || configuration.database.url.as_ref().map_or("", Secret::expose).to_owned();
            example.start(&examples::Surroundings {
                data_dir: &self.data_dir,
                database_url: &parts.postgres.as_ref().map_or_else(given, Postgres::url),
                address: &address,
                token_file: &token_file,
            })
        };
        let running_example = example.map(start_example).transpose()?;
        print::line(format!("ready: {address}"))?;
        self.explain(&address, &token_file, parts.postgres.as_ref(), example);
        Ok((running_example, running))
    }

    /// The keeper, the worker of the demo, and that of the worker file.
    async fn start_workers(
        &self,
        configuration: &Configuration,
        queue: &Queue,
        background: &mut Background,
        workers: &mut Vec<Worker>,
    ) -> Result<(), Failure> {
        background.run_keeper(queue);
        if !self.is_bare() {
            let tenants = demo::prepare(queue).await?;
            let worker = demo::worker(queue, configuration).await?;
            background.trace(configuration, &worker);
            background.spawn(demo::produce(queue.clone(), tenants, background.token()));
            workers.push(worker);
        }
        if let Some(file) = &configuration.worker.file {
            workers.push(super::worker::from_configuration(queue, configuration, file).await?);
        }
        Ok(())
    }

    /// Without the demo.
    fn is_bare(&self) -> bool {
        self.no_demo || self.example.is_some()
    }

    /// The configured database, or a Postgres of our own.
    async fn database(
        &self,
        global: &Global,
        configuration: &Configuration,
    ) -> Result<(Settings, Option<Postgres>), Failure> {
        if configuration.database.url.is_some() {
            return Ok((global.database(configuration)?, None));
        }
        let directory = std::path::absolute(&self.data_dir)?.join("postgres");
        print::note(format!("starting Postgres in {} …", directory.display()));
        let postgres = Postgres::start(&Options::new(directory)?).await.map_err(|error| {
            Failure::from(error)
                .advise("--data-dir DIRECTORY, or a running Postgres: --database-url URL or DATABASE_URL")
        })?;
        match Settings::new(&postgres.url()) {
            Ok(settings) => Ok((settings.connections(configuration.database.connections), Some(postgres))),
            Err(error) => {
                let _ = postgres.stop().await;
                Err(error.into())
            }
        }
    }

    /// Three things to try.
    fn explain(
        &self,
        address: &str,
        token_file: &Path,
        postgres: Option<&Postgres>,
        example: Option<&examples::Example>,
    ) {
        let server =
            if address == "http://127.0.0.1:8080" { String::new() } else { format!(" --server {address}") };
        let token = if token_file == Path::new(super::client::DEFAULT_TOKEN_FILE) {
            String::new()
        } else {
            format!(" --token-file {}", token_file.display())
        };
        let windlass = program();
        let ours = if self.is_bare() { "default" } else { "acme" };
        let tenant = example.map_or(ours, |example| example.tenant);
        print::note(format!("the admin token is in {}", token_file.display()));
        if let Some(postgres) = postgres {
            print::note(format!("the database is {}", postgres.url()));
        }
        print::note("three things to try, in a second terminal in this directory:");
        print::note(format!("  1  open {address} and sign in with the token"));
        if let Some(example) = example {
            let database = postgres.map(Postgres::url);
            print::note(format!("  2  {}", example.hint(database.as_deref())));
        } else if self.no_demo {
            print::note(format!(
                "  2  {windlass} definitions apply FILE{server}{token}    (see its --help for the file)"
            ));
        } else {
            print::note(format!(
                "  2  {windlass} jobs enqueue train-keyword-models --set keywords=12 --wait --tenant {tenant}{server}{token}"
            ));
        }
        print::note(format!("  3  {windlass} jobs list --tenant {tenant}{server}{token}"));
        print::note("press ctrl-C to stop");
    }
}

impl Everything {
    /// Resolves if there is an example and its script has failed.
    async fn example_failure(&mut self) -> std::process::ExitStatus {
        match &mut self.example {
            Some(example) => example.failure().await,
            None => std::future::pending().await,
        }
    }

    async fn stop(self, configuration: &Configuration, signals: &mut Signals) -> Result<Exit, Failure> {
        let grace = Duration::from_secs(configuration.http.stop_seconds);
        let Parts { workers, background, postgres, url_file: _url_file } = self.parts;
        let gracefully = async {
            if let Some(example) = self.example {
                example.stop().await;
            }
            let ((), stopped) = tokio::join!(self.running.stop(grace), stop_all(workers));
            if let Some(background) = background {
                background.stop().await;
            }
            stopped
        };
        // Dropping the rest ends it immediately; its jobs are recovered when their lease expires.
        let exit = tokio::select! {
            stopped = gracefully => {
                stopped?;
                Exit::Success
            }
            () = signals.next() => Exit::Interrupted,
        };
        if let Some(postgres) = postgres {
            tokio::select! {
                stopped = postgres.stop() => stopped?,
                () = signals.next() => return Ok(Exit::Interrupted),
            }
        }
        print::note("stopped; unfinished jobs stay in the database and continue at the next start");
        Ok(exit)
    }
}

/// The name of this program for the commands that are printed: its path, unless a shell finds it by its name.
fn program() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let is_own = |folder: PathBuf| std::fs::canonicalize(folder.join("windlass")).ok() == own;
    match &own {
        Some(own) if !std::env::split_paths(&path).any(is_own) => own.display().to_string(),
        _ => "windlass".to_owned(),
    }
}

/// On a terminal `up` prints its own messages; the log of the parts is reduced to warnings unless a filter is set.
fn reduce_logging(configuration: &mut Configuration) {
    use std::io::IsTerminal;
    if configuration.logs.filter == "info" && std::io::stderr().is_terminal() {
        configuration.logs.filter = "warn".to_owned();
    }
}
