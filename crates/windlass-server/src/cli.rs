//! The command line. One command per file; each is a few lines between the arguments and the API or the library.
//!
//! Standard output carries the answer and nothing else; what is meant for the person at the terminal goes to standard error.

mod audit;
mod client;
mod completions;
mod config;
mod definitions;
mod doctor;
pub mod exit;
mod holds;
mod jobs;
mod keeper;
mod migrate;
mod openapi;
mod print;
mod process;
mod queues;
mod retention;
mod serve;
mod summary;
mod tenants;
mod tokens;
mod top;
mod up;
mod worker;
mod workers;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{Mistake, Sourced, Sources};
use client::Client;
use exit::{Exit, Failure};

/// A durable, multi-tenant job queue on Postgres.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 110,
    long_about = "A durable, multi-tenant job queue on Postgres.\n\n\
        Start with `windlass up`: it brings a Postgres of its own, runs everything in one process and shows it at work. \
        The commands that look at jobs talk to a server (--server), or with --database-url to the database itself."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// The configuration file; see `windlass config example`
    #[arg(long, global = true, value_name = "FILE", env = "WINDLASS_CONFIG")]
    pub config: Option<PathBuf>,

    /// Works on this database directly instead of asking a server
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,

    /// The server to ask
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "WINDLASS_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    pub server: String,

    /// The API token; better in WINDLASS_TOKEN or a file, since others on the machine can read a command line
    #[arg(long, global = true, value_name = "TOKEN", env = "WINDLASS_TOKEN", hide_env_values = true)]
    pub token: Option<String>,

    /// A file that holds the API token; .windlass/admin-token is tried if nothing is given
    #[arg(long, global = true, value_name = "FILE", env = "WINDLASS_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// The tenant to act for, by slug or id; a tenant's own token needs none
    #[arg(long, global = true, value_name = "TENANT", env = "WINDLASS_TENANT")]
    pub tenant: Option<String>,

    /// Prints JSON instead of a table
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs everything in one process, with a Postgres of its own and a demo at work
    Up(up::Up),
    /// Serves the API and the pages
    Serve(serve::Serve),
    /// Runs jobs: commands and HTTP calls of its own file
    Worker(worker::Worker),
    /// Does the housekeeping: promotes, reaps, expires, schedules, prunes
    Keeper(keeper::Keeper),
    /// Brings the database's schema to this release
    Migrate(migrate::Migrate),
    /// Examines the database and says what is wrong and what to do
    Doctor(doctor::Doctor),
    /// Enqueues, shows, cancels, retries and follows jobs
    Jobs(jobs::Jobs),
    /// Counts jobs by status
    Summary(summary::Summary),
    /// Shows queues, running jobs and workers, live
    Top(top::Top),
    /// Lists, applies and compares job definitions
    Definitions(definitions::Definitions),
    /// Creates, changes and deletes tenants
    Tenants(tenants::Tenants),
    /// Creates, rotates and revokes API tokens
    Tokens(tokens::Tokens),
    /// Lists queues, pauses and resumes them
    Queues(queues::Queues),
    /// Lists workers, with a warning for those that fell silent
    Workers(workers::Workers),
    /// Says how long what is finished is kept, and how far pruning has come
    Retention(retention::Retention),
    /// Lists, places and releases legal holds
    Holds(holds::Holds),
    /// Lists the audit trail and verifies its chain
    Audit(audit::Audit),
    /// Prints an example configuration, or checks one
    Config(config::Config),
    /// Prints the OpenAPI description of the HTTP API
    Openapi(openapi::Openapi),
    /// Prints a completion script for a shell
    Completions(completions::Completions),
}

/// Reads the arguments, does what they say, and says on standard error why it could not.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = tree().try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| <Cli as clap::FromArgMatches>::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code());
            // Help and mistakes alike; there is nowhere to say that printing failed.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(run(cli)));
    match ended {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            if failure.exit != Exit::Success {
                print::note(format!("error: {failure}"));
            }
            ExitCode::from(failure.exit.code())
        }
    }
}

/// The whole tree, with the exit codes at the end of the help.
#[must_use]
pub fn tree() -> clap::Command {
    let codes: Vec<String> =
        Exit::ALL.iter().map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning())).collect();
    Cli::command().after_help(format!("Exit codes:\n{}", codes.join("\n")))
}

async fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = cli.global;
    match cli.command {
        Command::Up(up) => up.run(&global).await,
        Command::Serve(serve) => serve.run(&global).await,
        Command::Worker(worker) => worker.run(&global).await,
        Command::Keeper(keeper) => keeper.run(&global).await,
        Command::Migrate(migrate) => migrate.run(&global).await,
        Command::Doctor(doctor) => doctor.run(&global).await,
        Command::Jobs(jobs) => jobs.run(&global).await,
        Command::Summary(summary) => summary.run(&global).await,
        Command::Top(top) => top.run(&global).await,
        Command::Definitions(definitions) => definitions.run(&global).await,
        Command::Tenants(tenants) => tenants.run(&global).await,
        Command::Tokens(tokens) => tokens.run(&global).await,
        Command::Queues(queues) => queues.run(&global).await,
        Command::Workers(workers) => workers.run(&global).await,
        Command::Retention(retention) => retention.run(&global).await,
        Command::Holds(holds) => holds.run(&global).await,
        Command::Audit(audit) => audit.run(&global).await,
        Command::Config(config) => config.run(&global),
        Command::Openapi(openapi) => openapi.run(),
        Command::Completions(completions) => completions.run(),
    }
}

impl Global {
    /// The settings, with flags of this command on top.
    fn load(&self, flags: &[(&'static str, &'static str, Option<String>)]) -> Result<Sourced, Failure> {
        let url = [("database.url", "--database-url", self.database_url.clone())];
        let flags =
            url.iter().chain(flags).filter_map(|(key, flag, value)| Some((*key, *flag, value.clone()?)));
        let sources = Sources {
            flags: flags.collect(),
            variables: Sources::environment(),
            file: self.config.as_deref(),
        };
        crate::config::load(&sources).map_err(|mistakes| mistaken(&mistakes))
    }

    /// The database that a command works on by itself, such as `migrate`.
    fn database(&self, configuration: &crate::config::Configuration) -> Result<windlass::Settings, Failure> {
        let database = &configuration.database;
        let url = database.url.as_ref().ok_or_else(|| {
            Failure::usage("no database is named")
                .advise("--database-url URL, DATABASE_URL, or `url` under [database] in the file")
        })?;
        let settings = windlass::Settings::new(url.expose())?
            .connections(database.connections)
            .statement_timeout(Duration::from_secs(configuration.limits.statement_seconds));
        Ok(match &database.direct_url {
            Some(direct) => settings.direct_url(direct.expose())?,
            None => settings,
        })
    }

    /// The API, through the door that the flags name.
    async fn client(&self) -> Result<Client, Failure> {
        let client = if self.database_url.is_some() {
            let configuration = self.load(&[])?.configuration;
            let settings = self.database(&configuration)?;
            Client::to_database(process::routes(&configuration, settings).await?)
        } else {
            let token = client::token(self.token.as_deref(), self.token_file.as_deref())?;
            Client::to_server(&self.server, token)?
        };
        client.for_tenant(self.tenant.as_deref()).await
    }
}

fn mistaken(mistakes: &[Mistake]) -> Failure {
    let list: Vec<String> = mistakes.iter().map(|mistake| format!("  {mistake}")).collect();
    let count = if list.len() == 1 { "a mistake".to_owned() } else { format!("{} mistakes", list.len()) };
    Failure::usage(format!("the configuration has {count}:\n{}", list.join("\n")))
        .advise("`windlass config example` shows every setting")
}
