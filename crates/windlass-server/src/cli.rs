//! The command line. One command per file; each is a thin layer between the arguments and the API or the library.
//!
//! Standard output carries only the result. Notes for the person at the terminal go to standard error.

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
mod number;
mod openapi;
mod print;
mod process;
mod queues;
mod retention;
mod serve;
mod summary;
mod tenants;
mod terminal;
mod tokens;
mod top;
mod triggers;
mod up;
mod worker;
mod workers;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{ConfigError, Sourced, Sources};
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
        Start with `windlass up`: it starts its own Postgres, runs everything in one process and shows a demo. \
        The commands that read or change jobs call a server (--server), or use the database directly (--database-url)."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The configuration file; see `windlass config example`
    #[arg(long, global = true, value_name = "FILE", env = "WINDLASS_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use this database directly instead of a server
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// The server to call
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "WINDLASS_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: String,

    /// The API token; prefer WINDLASS_TOKEN or a file, because other users of the machine can read the command line
    #[arg(long, global = true, value_name = "TOKEN", env = "WINDLASS_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,

    /// A file that contains the API token [default: .windlass/admin-token, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "WINDLASS_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// The tenant, by slug or id; not needed with a token that belongs to a tenant
    #[arg(long, global = true, value_name = "TENANT", env = "WINDLASS_TENANT")]
    pub(crate) tenant: Option<String>,

    /// Print JSON instead of a table
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// A command without a description here is described at its own type, where the help has room for details.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Serve(serve::Serve),
    Worker(worker::WorkerCommand),
    Keeper(keeper::Keeper),
    Migrate(migrate::Migrate),
    Doctor(doctor::Doctor),
    /// Enqueue, show, cancel, retry and follow jobs
    Jobs(jobs::Jobs),
    Summary(summary::SummaryCommand),
    Top(top::Top),
    /// List, apply and compare job definitions
    Definitions(definitions::DefinitionsCommand),
    /// Create, change and delete tenants
    Tenants(tenants::TenantsCommand),
    /// Create, rotate and revoke API tokens
    Tokens(tokens::TokensCommand),
    /// List, pause and resume queues
    Queues(queues::QueuesCommand),
    /// List, show, run, preview, pause and resume triggers
    Triggers(triggers::TriggersCommand),
    /// List, drain and resume workers
    Workers(workers::WorkersCommand),
    /// Show and set how long finished jobs and events are kept
    Retention(retention::RetentionCommand),
    /// List, place and release legal holds
    Holds(holds::HoldsCommand),
    /// List the audit trail and verify its hash chain
    Audit(audit::Audit),
    /// Print an example configuration, or check one
    Config(config::Config),
    Openapi(openapi::Openapi),
    /// Print a shell completion script
    Completions(completions::Completions),
}

/// Parses the arguments, runs the command, and reports a failure on standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = tree().try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| <Cli as clap::FromArgMatches>::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code());
            // Prints help as well as errors. A failure to print cannot be reported anywhere.
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

/// The complete command tree, with the exit codes at the end of the help.
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
        Command::Triggers(triggers) => triggers.run(&global).await,
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
    /// Loads the configuration; flags of the command take precedence.
    fn load(&self, flags: &[(&'static str, &'static str, Option<String>)]) -> Result<Sourced, Failure> {
        let url = [("database.url", "--database-url", self.database_url.clone())];
        let flags =
            url.iter().chain(flags).filter_map(|(key, flag, value)| Some((*key, *flag, value.clone()?)));
        let sources = Sources {
            flags: flags.collect(),
            variables: Sources::environment(),
            file: self.config.as_deref(),
        };
        crate::config::load(&sources).map_err(|errors| invalid_configuration(&errors))
    }

    /// The database for commands that connect to it themselves, such as `migrate`.
    fn database(&self, configuration: &crate::config::Configuration) -> Result<windlass::Settings, Failure> {
        let database = &configuration.database;
        let url = database.url.as_ref().ok_or_else(|| {
            Failure::usage("no database is configured").advise(
                "set --database-url URL, DATABASE_URL, or `url` under [database] in the configuration file",
            )
        })?;
        let settings = windlass::Settings::new(url.expose())?
            .connections(database.connections)
            .statement_timeout(Duration::from_secs(configuration.limits.statement_seconds));
        Ok(match &database.direct_url {
            Some(direct) => settings.direct_url(direct.expose())?,
            None => settings,
        })
    }

    /// The database that a command examines: the configured one, else that of a `windlass up` in this directory.
    fn examined_database(
        &self,
        configuration: &crate::config::Configuration,
    ) -> Result<windlass::Settings, Failure> {
        if configuration.database.url.is_none()
            && let Ok(url) = std::fs::read_to_string(client::DEFAULT_DATABASE_URL_FILE)
        {
            return Ok(windlass::Settings::new(url.trim())?);
        }
        self.database(configuration)
    }

    /// The failure of a call about one object: if it was not found, with its id and the tenant.
    fn not_found(&self, failure: Failure, what: &str, id: &str) -> Failure {
        match (failure.exit, &self.tenant) {
            (Exit::Missing, Some(tenant)) => {
                Failure::new(Exit::Missing, format!("{what} {id} not found in the tenant {tenant}"))
            }
            (Exit::Missing, None) => Failure::new(Exit::Missing, format!("{what} {id} not found"))
                .advise("if it belongs to another tenant: --tenant TENANT"),
            _ => failure,
        }
    }

    /// Names the tenant of a super-admin who gave none, so that the result is not taken for that of all tenants.
    async fn note_tenant(&self, client: &Client) -> Result<(), Failure> {
        if self.tenant.is_none() && !self.json {
            let me = client.get("/api/v1/me", &[]).await?;
            if print::at(&me, "role") == "super_admin" {
                print::note("tenant: default (--tenant TENANT chooses another)");
            }
        }
        Ok(())
    }

    /// The API client: of the database if `--database-url` is given, else of the server.
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

fn invalid_configuration(errors: &[ConfigError]) -> Failure {
    let list: Vec<String> = errors.iter().map(|error| format!("  {error}")).collect();
    let count = if list.len() == 1 { "an error".to_owned() } else { format!("{} errors", list.len()) };
    Failure::usage(format!("the configuration has {count}:\n{}", list.join("\n")))
        .advise("`windlass config example` shows every setting")
}
