//! `windlass up`: everything in one process, from nothing to jobs at work.
//!
//! How it stops: on ctrl-C or SIGTERM an example's programs and the demo's producer end first, then the server takes no more
//! requests, the worker lets its runs finish, the keeper ends, and the Postgres it started is shut down. A second signal skips
//! the waiting.

mod demo;
mod examples;
mod handlers;
mod token;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use windlass::embedded::{Options, Postgres};
use windlass::{Settings, Worker};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{self, Beside, Signals};
use crate::auth::Secret;
use crate::config::Configuration;
use crate::server::Running;

/// Runs everything in one process: the API, the pages, the keeper and a worker, on a Postgres of its own.
///
/// The first time it makes its directory, two tenants and jobs that visibly run; later it goes on where it was. With a
/// database named (--database-url, DATABASE_URL or the file) it uses that and starts none. The super-admin's token is
/// written to DIR/admin-token, readable by you alone; the other commands find it there.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass up\n  windlass up --example ai-tagging\n  windlass up --data-dir /var/lib/windlass --listen 0.0.0.0:8080 --no-demo"
)]
pub struct Up {
    /// Where its Postgres, and the admin's token, are kept
    #[arg(long, value_name = "DIR", default_value = ".windlass")]
    data_dir: PathBuf,

    /// Where to serve, such as 127.0.0.1:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Without demo tenants and jobs
    #[arg(long)]
    no_demo: bool,

    /// Runs an example of the repository instead of the demo: ai-tagging, tts, clipnest, call-transcription or zoltag
    #[arg(long, value_name = "NAME", conflicts_with = "no_demo")]
    example: Option<String>,
}

/// What was started, in the order in which it is stopped.
struct Everything {
    example: Option<examples::Running>,
    running: Running,
    workers: Vec<Worker>,
    beside: Beside,
    postgres: Option<Postgres>,
}

impl Up {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let example = self.example.as_deref().map(examples::find).transpose()?;
        example.map_or(Ok(()), examples::Example::check_needs)?;
        let mut configuration =
            global.load(&[("http.listen", "--listen", self.listen.clone())])?.configuration;
        quieten(&mut configuration);
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        std::fs::create_dir_all(&self.data_dir)
            .map_err(|error| Failure::usage(format!("cannot make {}: {error}", self.data_dir.display())))?;

        let mut everything = tokio::select! {
            started = self.start(global, &configuration, example) => started?,
            () = signals.next() => return Ok(Exit::Interrupted),
        };
        tokio::select! {
            () = signals.next() => {}
            status = everything.example_broke() => {
                print::note(format!("the example ended ({status}); what it said is above, the rest goes on"));
                signals.next().await;
            }
        }
        print::note("stopping: letting running jobs finish (ctrl-C again to leave them to the reaper)");
        everything.stop(&configuration, &mut signals).await
    }

    async fn start(
        &self,
        global: &Global,
        configuration: &Configuration,
        example: Option<&examples::Example>,
    ) -> Result<Everything, Failure> {
        let (settings, postgres) = self.database(global, configuration).await?;
        windlass::migrate(&settings).await?;
        let app = process::app(configuration, settings).await?;
        let queue = app.queue().clone();
        let token_file = token::ensure(&app, &self.data_dir).await?;

        let mut beside = Beside::start(configuration, &queue).await?;
        beside.keep(&queue);
        let mut workers = Vec::new();
        if !self.is_bare() {
            let tenants = demo::prepare(&queue).await?;
            let worker = demo::worker(&queue, configuration).await?;
            beside.trace(configuration, &worker);
            beside.spawn(demo::produce(queue.clone(), tenants, beside.token()));
            workers.push(worker);
        }
        if let Some(file) = &configuration.worker.file {
            workers.push(super::worker::beside(&queue, configuration, file).await?);
        }
        let running = process::serve(app, configuration).await?;
        let address = process::address(configuration, running.address());
        let example_at_work = match example {
            None => None,
            Some(example) => {
                let given = || configuration.database.url.as_ref().map_or("", Secret::expose).to_owned();
                let around = examples::Surroundings {
                    data_dir: &self.data_dir,
                    database_url: &postgres.as_ref().map_or_else(given, Postgres::url),
                    address: &address,
                    token_file: &token_file,
                };
                Some(example.start(&around)?)
            }
        };
        print::line(format!("ready: {address}"))?;
        self.explain(&address, &token_file, postgres.as_ref(), example);
        Ok(Everything { example: example_at_work, running, workers, beside, postgres })
    }

    /// Without the demo.
    fn is_bare(&self) -> bool {
        self.no_demo || self.example.is_some()
    }

    /// The database that was named, or one of our own.
    async fn database(
        &self,
        global: &Global,
        configuration: &Configuration,
    ) -> Result<(Settings, Option<Postgres>), Failure> {
        if configuration.database.url.is_some() {
            return Ok((global.database(configuration)?, None));
        }
        let directory = std::path::absolute(&self.data_dir)?.join("postgres");
        print::note(format!("starting a Postgres of its own in {} …", directory.display()));
        let postgres = Postgres::start(&Options::new(directory)?).await.map_err(|error| {
            Failure::from(error).advise("or name a Postgres that runs: --database-url URL or DATABASE_URL")
        })?;
        let settings = Settings::new(&postgres.url())?.connections(configuration.database.connections);
        Ok((settings, Some(postgres)))
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
        let ours = if self.is_bare() { "default" } else { "acme" };
        let tenant = example.map_or(ours, |example| example.tenant);
        print::note(format!("the admin's token is in {}", token_file.display()));
        if let Some(postgres) = postgres {
            print::note(format!("the database is {}", postgres.url()));
        }
        print::note("three things to try, here in a second terminal:");
        print::note(format!("  1  open {address} and sign in with the token"));
        if let Some(example) = example {
            let database = postgres.map(Postgres::url);
            print::note(format!("  2  {}", example.hint(database.as_deref())));
        } else if self.no_demo {
            print::note(format!(
                "  2  windlass definitions apply FILE{server}{token}    (see its --help for the file)"
            ));
        } else {
            print::note(format!(
                "  2  windlass jobs enqueue train-keyword-models --set keywords=12 --wait --tenant {tenant}{server}{token}"
            ));
        }
        print::note(format!("  3  windlass jobs list --tenant {tenant}{server}{token}"));
        print::note("ctrl-C stops all of it");
    }
}

impl Everything {
    /// Resolves if there is an example and its script has failed.
    async fn example_broke(&mut self) -> std::process::ExitStatus {
        match &mut self.example {
            Some(example) => example.broke().await,
            None => std::future::pending().await,
        }
    }

    async fn stop(self, configuration: &Configuration, signals: &mut Signals) -> Result<Exit, Failure> {
        let grace = Duration::from_secs(configuration.http.stop_seconds);
        let gracefully = async {
            if let Some(example) = self.example {
                example.stop().await;
            }
            let stopping = self.workers.into_iter().map(Worker::stop);
            let workers = futures_util::future::try_join_all(stopping);
            let ((), stopped) = tokio::join!(self.running.stop(grace), workers);
            self.beside.stop().await;
            stopped.map(drop)
        };
        // Dropping the rest ends it at once; the jobs it held come back when their lease has run out.
        let exit = tokio::select! {
            stopped = gracefully => {
                stopped?;
                Exit::Success
            }
            () = signals.next() => Exit::Interrupted,
        };
        if let Some(postgres) = self.postgres {
            tokio::select! {
                stopped = postgres.stop() => stopped?,
                () = signals.next() => return Ok(Exit::Interrupted),
            }
        }
        print::note("stopped; what is left waits in the database and goes on with the next start");
        Ok(exit)
    }
}

/// On a terminal `up` shows its own words; what the parts say is for when something is wrong, or when asked for.
fn quieten(configuration: &mut Configuration) {
    use std::io::IsTerminal;
    if configuration.logs.filter == "info" && std::io::stderr().is_terminal() {
        configuration.logs.filter = "warn".to_owned();
    }
}
