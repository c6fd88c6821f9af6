//! `windlass summary`.

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at};

/// Counts jobs by status, with the age of the oldest that waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass summary --tenant acme\n  windlass summary --all\n  \
    windlass summary --json | jq .running")]
pub struct Summary {
    /// Across all tenants (super-admin)
    #[arg(long)]
    all: bool,
}

impl Summary {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let (path, whole) =
            if self.all { ("/api/v1/admin/summary", "all") } else { ("/api/v1/jobs/summary", "counts") };
        let summary = global.client().await?.get(path, &[]).await?;
        if global.json {
            print::json(&summary)?;
            return Ok(Exit::Success);
        }
        let mut all = at(&summary, whole).clone();
        all["queue"] = json!("all");
        if all.get("oldest_queued_age_seconds").is_none() {
            all["oldest_queued_age_seconds"] = at(&summary, "oldest_queued_age_seconds").clone();
        }
        let queues = at(&summary, "queues").as_object().into_iter().flatten().map(|(name, counts)| {
            let mut row = counts.clone();
            row["queue"] = json!(name);
            row
        });
        print::table(&queues.chain([all]).collect::<Vec<Value>>(), &COLUMNS, "nothing is counted")?;
        Ok(Exit::Success)
    }
}

const COLUMNS: [(&str, Show); 10] = [
    ("QUEUE", Show::Plain("queue")),
    ("QUEUED", Show::Plain("queued")),
    ("OLDEST", Show::With(oldest)),
    ("RUNNING", Show::Plain("running")),
    ("SCHEDULED", Show::Plain("scheduled")),
    ("BLOCKED", Show::Plain("blocked")),
    ("SUCCEEDED", Show::Plain("succeeded")),
    ("FAILED", Show::Plain("failed")),
    ("DEAD LETTERS", Show::Plain("dead_letter")),
    ("CANCELED", Show::Plain("canceled")),
];

fn oldest(row: &Value) -> String {
    at(row, "oldest_queued_age_seconds").as_f64().map(|age| print::span(age as i64)).unwrap_or_default()
}
