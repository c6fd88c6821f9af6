//! `windlass workers`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::client::segment;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub struct Workers {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists workers; one that fell silent is STALE, and LOST once its jobs were given to others
    #[command(alias = "ls")]
    List,
    /// Lets a worker start no more jobs; those that run go on
    Quiet {
        /// The worker's id
        worker: String,
    },
    /// Lets a quiet worker start jobs again
    Resume {
        /// The worker's id
        worker: String,
    },
}

const PATH: &str = "/api/v1/admin/workers";

impl Workers {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let (worker, verb, said) = match &self.verb {
            Verb::List => return print::list(global.json, client.all(PATH, &[]).await?, show),
            Verb::Quiet { worker } => (worker, "quiet", "will start no more jobs"),
            Verb::Resume { worker } => (worker, "resume", "starts jobs again"),
        };
        let answer = client.post(&format!("{PATH}/{}/{verb}", segment(worker)), json!({})).await?;
        print::answer(global.json, &answer, |_| print::line(format!("{worker}: {said}")))
    }
}

pub(super) fn show(workers: &[Value]) -> Result<(), Failure> {
    print::table(
        workers,
        &[
            ("WORKER", Show::Plain("worker_id")),
            ("STATE", Show::With(state)),
            ("SEEN", Show::Age("last_seen_at")),
            ("RUNNING", Show::Plain("running_count")),
            ("KEYS", Show::Cut("definition_keys", 40)),
            ("QUEUES", Show::Plain("queues")),
            ("VERSION", Show::Plain("version")),
        ],
        "no workers; `windlass worker` starts one",
    )
}

/// Loud where somebody should look.
fn state(worker: &Value) -> String {
    let status = text(at(worker, "status"));
    if at(worker, "is_stale") == true { status.to_uppercase() } else { status }
}
