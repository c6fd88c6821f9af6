//! `windlass jobs list`.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::enqueue::instant;
use crate::cli::Global;
use crate::cli::client::list_of;
use crate::cli::exit::{Exit, Failure};
use crate::cli::number::number;
use crate::cli::print::{self, Show};

/// The conditions that select jobs; all of them must match.
#[derive(Debug, Args, Default)]
pub(super) struct Which {
    /// Only with this status: queued, running, scheduled, blocked, succeeded, failed, dead_letter, canceled
    #[arg(long, value_name = "STATUS")]
    pub(super) status: Option<String>,

    /// Only of this definition
    #[arg(long, value_name = "KEY")]
    pub(super) definition: Option<String>,

    /// Only in this queue
    #[arg(long)]
    pub(super) queue: Option<String>,

    /// Only from this source: manual, event, schedule, system
    #[arg(long)]
    pub(super) source: Option<String>,

    /// Only with this tag
    #[arg(long)]
    pub(super) tag: Option<String>,

    /// Only with this correlation id
    #[arg(long, value_name = "ID")]
    pub(super) correlation_id: Option<String>,

    /// Only created at this instant or later
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub(super) created_after: Option<Timestamp>,

    /// Only created before this instant
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub(super) created_before: Option<Timestamp>,
}

impl Which {
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let instant = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let all = [
            ("status", self.status.clone()),
            ("definition_key", self.definition.clone()),
            ("queue", self.queue.clone()),
            ("source", self.source.clone()),
            ("tag", self.tag.clone()),
            ("correlation_id", self.correlation_id.clone()),
            ("created_after", instant(self.created_after)),
            ("created_before", instant(self.created_before)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields().is_empty()
    }

    pub(super) fn as_filter(&self) -> Value {
        Value::Object(
            self.fields().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect(),
        )
    }
}

/// List jobs, newest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass jobs list --tenant acme --status dead_letter\n  \
    windlass jobs list --definition sync-dropbox --limit 20\n  windlass jobs list --json | jq -r '.jobs[].id'")]
pub(super) struct List {
    #[command(flatten)]
    which: Which,

    /// The maximum number of jobs, from 1 to 1000
    #[arg(long, default_value_t = 50, value_parser = number::<1, 1000>)]
    limit: u64,

    /// The cursor of the previous page
    #[arg(long)]
    cursor: Option<String>,
}

impl List {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let mut query = self.which.fields();
        query.push(("limit", self.limit.to_string()));
        query.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        let client = global.client().await?;
        global.note_tenant(&client).await?;
        let page = client.get("/api/v1/jobs", &query).await?;
        if global.json {
            print::json(&page)?;
            return Ok(Exit::Success);
        }
        print::table(
            &list_of(&page),
            &[
                ("ID", Show::Plain("id")),
                ("DEFINITION", Show::Cut("definition_key", 60)),
                ("STATUS", Show::Plain("status")),
                ("ATTEMPTS", Show::With(attempts)),
                ("QUEUED", Show::Age("queued_at")),
                ("FINISHED", Show::Age("finished_at")),
                ("SOURCE", Show::Plain("source")),
                ("ERROR", Show::Cut("last_error", 40)),
            ],
            "no jobs; `windlass jobs enqueue KEY` enqueues one",
        )?;
        if let Some(cursor) = page.get("next_cursor").and_then(Value::as_str) {
            print::note(format!("more: --cursor {cursor}"));
        }
        Ok(Exit::Success)
    }
}

pub(super) fn attempts(job: &Value) -> String {
    format!(
        "{}/{}",
        print::text(print::at(job, "attempt_count")),
        print::text(print::at(job, "max_attempts"))
    )
}
