//! `windlass jobs`: one verb per file.

mod act;
mod enqueue;
mod list;
mod show;
mod tail;
mod wait;

use clap::{Args, Subcommand};

use super::Global;
use super::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub struct Jobs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Enqueues a job
    Enqueue(enqueue::Enqueue),
    /// Lists jobs, newest first
    #[command(alias = "ls")]
    List(list::List),
    /// Shows one job with its attempts, and why it waits if it does
    Show(show::Show),
    /// Cancels jobs: at once if they wait, by request if they run
    Cancel(act::Cancel),
    /// Runs finished jobs once more
    Retry(act::Retry),
    /// Follows what a job prints
    Tail(tail::Tail),
    /// Waits until jobs have ended; code 1 if one did not succeed
    Wait(wait::Wait),
}

impl Jobs {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            Verb::Enqueue(verb) => verb.run(global).await,
            Verb::List(verb) => verb.run(global).await,
            Verb::Show(verb) => verb.run(global).await,
            Verb::Cancel(verb) => verb.run(global).await,
            Verb::Retry(verb) => verb.run(global).await,
            Verb::Tail(verb) => verb.run(global).await,
            Verb::Wait(verb) => verb.run(global).await,
        }
    }
}
