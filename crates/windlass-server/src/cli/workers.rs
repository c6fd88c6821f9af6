//! `windlass workers`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::client::{Client, segment};
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct WorkersCommand {
    #[command(subcommand)]
    verb: WorkersVerb,
}

#[derive(Debug, Subcommand)]
enum WorkersVerb {
    /// List workers; a stale one has missed heartbeats, a lost one has lost its jobs to other workers
    #[command(alias = "ls")]
    List,
    /// Drain a worker: it starts no more jobs; running jobs continue
    Drain {
        /// The id of the worker
        worker: String,
    },
    /// Let a drained worker start jobs again
    Resume {
        /// The id of the worker
        worker: String,
    },
}

const PATH: &str = "/api/v1/admin/workers";

impl WorkersCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let (worker, verb, state) = match &self.verb {
            WorkersVerb::List => return print::list(global.json, client.all(PATH, &[]).await?, show),
            WorkersVerb::Drain { worker } => (worker, "drain", "draining"),
            WorkersVerb::Resume { worker } => (worker, "resume", "resumed"),
        };
        let response = match client.post(&format!("{PATH}/{}/{verb}", segment(worker)), json!({})).await {
            Err(failure) if failure.exit == Exit::Missing => {
                return Err(missing(&client, failure, worker).await);
            }
            response => response?,
        };
        print::response(global.json, &response, |_| print::line(format!("{worker}: {state}")))
    }
}

/// A worker that has stopped is still listed for a day.
async fn missing(client: &Client, failure: Failure, worker: &str) -> Failure {
    let workers = client.all(PATH, &[]).await.unwrap_or_default();
    if workers.iter().any(|listed| at(listed, "worker_id") == worker) {
        return Failure::new(Exit::Conflict, format!("the worker {worker} has stopped"));
    }
    failure.about(&format!("worker {worker}")).advise("`windlass workers list` lists the workers")
}

pub(super) fn show(workers: &[Value]) -> Result<(), Failure> {
    print::table(
        workers,
        &[
            ("WORKER", Show::Plain("worker_id")),
            ("STATE", Show::With(state)),
            ("LAST HEARTBEAT", Show::Age("last_seen_at")),
            ("RUNNING", Show::Plain("running_count")),
            ("DEFINITIONS", Show::Free(definitions)),
            ("QUEUES", Show::Cut("queues", 60)),
            ("VERSION", Show::Plain("version")),
        ],
        "no workers; `windlass worker` starts one",
    )
}

/// The definitions; of a part of the server that runs no jobs, such as the dispatcher of pull workers, what it is.
fn definitions(worker: &Value) -> String {
    let keys = text(at(worker, "definition_keys"));
    if keys.is_empty() { text(at(worker, "metadata.kind")) } else { print::cut(&keys, 40) }
}

fn state(worker: &Value) -> String {
    let status = text(at(worker, "status"));
    let is_stale = matches!(status.as_str(), "active" | "draining") && at(worker, "is_stale") == true;
    if is_stale { "stale".to_owned() } else { status }
}
