//! `windlass queues`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::client::segment;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at};

#[derive(Debug, Args)]
pub(crate) struct QueuesCommand {
    #[command(subcommand)]
    verb: QueuesVerb,
}

#[derive(Debug, Subcommand)]
enum QueuesVerb {
    /// List queues and their job counts
    #[command(alias = "ls")]
    List,
    /// Stop workers from starting jobs of a queue; running jobs continue
    Pause {
        /// The name of the queue
        queue: String,
    },
    /// Let workers start jobs of a queue again
    Resume {
        /// The name of the queue
        queue: String,
    },
}

const PATH: &str = "/api/v1/admin/queues";

impl QueuesCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let (queue, verb) = match &self.verb {
            QueuesVerb::List => return print::list(global.json, client.all(PATH, &[]).await?, show),
            QueuesVerb::Pause { queue } => (queue, "pause"),
            QueuesVerb::Resume { queue } => (queue, "resume"),
        };
        let queues = client.all(PATH, &[]).await?;
        let listed = queues.iter().find(|listed| at(listed, "name") == queue.as_str());
        if listed.is_none_or(|listed| is_unused(at(listed, "summary"))) {
            print::note(format!(
                "no job has used the queue {queue:?} yet: this affects only future jobs; `windlass queues list` lists the queues"
            ));
        }
        let response = client.post(&format!("{PATH}/{}/{verb}", segment(queue)), json!({})).await?;
        print::response(global.json, &response, |_| print::line(format!("{queue}: {verb}d")))
    }
}

fn is_unused(summary: &Value) -> bool {
    summary.as_object().is_none_or(|counts| counts.values().all(|count| count.as_f64().unwrap_or(0.0) == 0.0))
}

fn show(queues: &[Value]) -> Result<(), Failure> {
    print::table(
        queues,
        &[
            ("QUEUE", Show::Plain("name")),
            (
                "STATE",
                Show::With(
                    |queue| if at(queue, "is_paused") == true { "paused".into() } else { "active".into() },
                ),
            ),
            ("QUEUED", Show::Plain("summary.queued")),
            ("RUNNING", Show::Plain("summary.running")),
            ("SCHEDULED", Show::Plain("summary.scheduled")),
            ("DEAD LETTERS", Show::Plain("summary.dead_letter")),
        ],
        "no queues; the first job of a queue creates it",
    )
}
