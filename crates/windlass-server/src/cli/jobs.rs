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
pub(crate) struct Jobs {
    #[command(subcommand)]
    verb: JobsVerb,
}

/// Each is described at its own type.
#[derive(Debug, Subcommand)]
enum JobsVerb {
    Enqueue(enqueue::Enqueue),
    #[command(alias = "ls")]
    List(list::List),
    Show(show::ShowCommand),
    Cancel(act::Cancel),
    Retry(act::Retry),
    Tail(tail::Tail),
    Wait(wait::Wait),
}

impl Jobs {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            JobsVerb::Enqueue(verb) => verb.run(global).await,
            JobsVerb::List(verb) => verb.run(global).await,
            JobsVerb::Show(verb) => verb.run(global).await,
            JobsVerb::Cancel(verb) => verb.run(global).await,
            JobsVerb::Retry(verb) => verb.run(global).await,
            JobsVerb::Tail(verb) => verb.run(global).await,
            JobsVerb::Wait(verb) => verb.run(global).await,
        }
    }
}
