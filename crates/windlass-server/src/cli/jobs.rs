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

/// Each is described at its own type.
#[derive(Debug, Subcommand)]
enum Verb {
    Enqueue(enqueue::Enqueue),
    #[command(alias = "ls")]
    List(list::List),
    Show(show::Show),
    Cancel(act::Cancel),
    Retry(act::Retry),
    Tail(tail::Tail),
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
