//! `windlass jobs cancel` and `retry`: on ids, or on all that match.

use clap::Args;
use serde_json::{Value, json};

use super::list::Which;
use crate::cli::Global;
use crate::cli::exit::{Exit, Failure};
use crate::cli::print;

/// Cancels jobs: at once if they wait, by request if they run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass jobs cancel 0199…\n  \
    windlass jobs cancel --status queued --definition sync-dropbox --dry-run")]
pub(super) struct Cancel {
    #[command(flatten)]
    act: Act,
}

/// Runs finished jobs once more, each with a fresh budget of attempts.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass jobs retry 0199…\n  \
    windlass jobs retry --status dead_letter --definition sync-dropbox")]
pub(super) struct Retry {
    #[command(flatten)]
    act: Act,
}

#[derive(Debug, Args)]
struct Act {
    /// The jobs' ids
    ids: Vec<String>,

    #[command(flatten)]
    which: Which,

    /// Only says how many it would touch
    #[arg(long)]
    dry_run: bool,
}

impl Cancel {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        self.act.run(global, "cancel").await
    }
}

impl Retry {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        self.act.run(global, "retry").await
    }
}

impl Act {
    async fn run(&self, global: &Global, verb: &str) -> Result<Exit, Failure> {
        let client = global.client().await?;
        match (self.ids.is_empty(), self.which.is_empty()) {
            (true, true) => Err(Failure::usage(format!("which jobs to {verb}?"))
                .advise("name ids, or conditions such as --status dead_letter (--dry-run counts first)")),
            (false, false) => Err(Failure::usage("name ids or conditions, not both")),
            (false, true) if !self.dry_run => {
                for id in &self.ids {
                    let job = client.post(&format!("/api/v1/jobs/{id}/{verb}"), json!({})).await?;
                    if global.json {
                        print::json(&job)?;
                    } else {
                        print::line(format!("{id} {}", outcome(&job)))?;
                    }
                }
                Ok(Exit::Success)
            }
            (has_no_ids, _) => {
                let mut body = if has_no_ids {
                    json!({"filter": self.which.as_filter()})
                } else {
                    json!({"ids": self.ids})
                };
                body["dry_run"] = json!(self.dry_run);
                let answer = client.post(&format!("/api/v1/jobs/bulk/{verb}"), body).await?;
                if global.json {
                    print::json(&answer)?;
                } else {
                    let count = answer
                        .as_object()
                        .into_iter()
                        .flatten()
                        .find_map(|(_, value)| value.as_u64())
                        .unwrap_or(0);
                    let would = if self.dry_run { "would touch" } else { "touched" };
                    print::line(format!("{verb}: {would} {count} jobs"))?;
                }
                Ok(Exit::Success)
            }
        }
    }
}

fn outcome(job: &Value) -> String {
    let status = print::text(print::at(job, "status"));
    if print::at(job, "cancel_requested_at").is_null() { status } else { format!("{status}, asked to stop") }
}
