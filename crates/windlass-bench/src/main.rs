//! Measures windlass and compares it with the raw limits of the same Postgres.
//!
//! Two programs in one: the suite (`windlass-bench [--quick|--full]`), which starts a server, measures everything and
//! compares it with the targets, and the drivers (`windlass-bench driver MODE`), which measure one thing on a running server.
//! The suite uses the drivers, so there is one implementation of each measurement.

#![expect(clippy::print_stdout, reason = "the figures are the output of the program")]
#![expect(clippy::print_stderr, reason = "progress and errors are for the user")]

mod api;
mod args;
mod cliffs;
mod commands;
mod cost;
mod database;
mod driver;
mod figures;
mod forever;
mod http;
mod neighbour;
mod noop;
mod pages;
mod peers;
mod percentile;
mod process;
mod prune;
mod raw;
mod repeated;
mod scale;
mod schedule;
mod server;
mod soak;
mod stolen;
mod suite;
mod table;

use std::error::Error;
use std::process::ExitCode;

use args::Command;
use soak::work::{self, Process};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    // This process may be the supervisor of a command.
    windlass::worker::run_shim_if_requested();
    let command = match Command::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("windlass-bench: {error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    if let Command::SoakProcess(Process::Command(call)) = &command {
        return match work::command::run(call) {
            Ok(code) => ExitCode::from(code),
            Err(error) => failed(&*error),
        };
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let done = runtime.block_on(async {
        match command {
            Command::Soak(words) => return run_soak(&words).await,
            Command::SoakProcess(Process::Worker(ledger)) => work::rust::run(&ledger).await,
            Command::SoakProcess(Process::Command(_)) => Ok(()),
            Command::Help => {
                println!("{}", args::USAGE);
                Ok(())
            }
            Command::Suite(options) => suite::run(&options).await,
            Command::Api(plan) => api::run(&plan).await,
            Command::Commands(plan) => commands::run(&plan).await,
            Command::Driver(mode) => driver::run(&mode).await,
            Command::Http(plan) => http::run(&plan).await,
            Command::Neighbour(plan) => neighbour::run(&plan).await,
            Command::NeighbourLoad => neighbour::run_load().await,
            Command::Prune(plan) => prune::run(&plan).await,
            Command::Forever(plan) => forever::run(&plan).await,
            Command::Peers(plan) => peers::run(&plan).await,
            Command::PeersChild(call) => peers::run_child(&call).await,
            Command::Scale(plan) => scale::run(&plan).await,
            Command::ScaleWorker => scale::run_worker().await,
            Command::Cliffs(plan) => cliffs::run(&plan).await,
            Command::Pages(plan) => pages::run(&plan).await,
            Command::Schedule(plan) => schedule::run(&plan).await,
        }
        .map(|()| ExitCode::SUCCESS)
    });
    match done {
        Ok(code) => code,
        Err(error) => failed(&*error),
    }
}

/// Its command line is parsed by clap, which prints the help and the errors.
async fn run_soak(words: &[String]) -> Result<ExitCode> {
    match soak::SoakPlan::parse_words(words) {
        Ok(plan) => soak::run(&plan).await,
        Err(error) => {
            error.print()?;
            Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)))
        }
    }
}

/// The whole chain of causes: the message of the database is often the last of them.
fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !message.contains(&words) {
            message.push_str(": ");
            message.push_str(&words);
        }
        cause = error.source();
    }
    eprintln!("windlass-bench: {message}");
    ExitCode::FAILURE
}
