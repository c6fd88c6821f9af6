//! `windlass summary`.

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at};

/// Count jobs by status.
///
/// Shows one line per queue and the total, with the age of the oldest queued job.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass summary --tenant acme\n  windlass summary --all\n  \
    windlass summary --json | jq .running")]
pub(crate) struct SummaryCommand {
    /// Count the jobs of all tenants (super-admin only)
    #[arg(long)]
    all: bool,
}

impl SummaryCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        if !self.all {
            global.note_tenant(&client).await?;
        }
        let summary = client.get(path(self.all), &[]).await?;
        let exit = print::response(global.json, &summary, show)?;
        // Without --tenant, a super-admin gets the default tenant, which may never have had a job.
        if !self.all && global.tenant.is_none() && is_nothing(at(&summary, "counts")) {
            print::note(
                "this tenant has no jobs; use --tenant SLUG for another tenant, or --all for all tenants",
            );
        }
        Ok(exit)
    }
}

pub(super) fn path(is_for_all: bool) -> &'static str {
    if is_for_all { "/api/v1/admin/summary" } else { "/api/v1/jobs/summary" }
}

fn is_nothing(counts: &Value) -> bool {
    counts.as_object().is_some_and(|counts| counts.values().all(|count| count.as_i64().unwrap_or(0) == 0))
}

/// One line per queue, and one for the total. The summary of one tenant and that of all have slightly different shapes.
pub(super) fn show(summary: &Value) -> Result<(), Failure> {
    let mut all = summary.get("all").unwrap_or_else(|| at(summary, "counts")).clone();
    if let Value::Object(fields) = &mut all {
        fields.insert("queue".to_owned(), json!("all"));
        let oldest = at(summary, "oldest_queued_age_seconds").clone();
        fields.entry("oldest_queued_age_seconds").or_insert(oldest);
    }
    let queues = at(summary, "queues").as_object().into_iter().flatten().map(|(name, counts)| {
        let mut row = counts.clone();
        if let Value::Object(fields) = &mut row {
            fields.insert("queue".to_owned(), json!(name));
        }
        row
    });
    print::table(&queues.chain([all]).collect::<Vec<Value>>(), &COLUMNS, "no jobs")
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
