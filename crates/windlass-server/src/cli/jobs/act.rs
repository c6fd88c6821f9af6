//! `windlass jobs cancel` and `retry`: on ids, or on all that match.

use clap::Args;
use serde_json::{Value, json};

use super::list::Which;
use crate::cli::Global;
use crate::cli::client::Client;
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
                let which = if has_no_ids {
                    json!({"filter": self.which.as_filter()})
                } else {
                    json!({"ids": self.ids})
                };
                self.run_many(global, &client, verb, which).await
            }
        }
    }

    /// A call takes a thousand jobs at most; what it changed no longer fits, so the next call meets others.
    async fn run_many(
        &self,
        global: &Global,
        client: &Client,
        verb: &str,
        mut body: Value,
    ) -> Result<Exit, Failure> {
        body["dry_run"] = json!(self.dry_run);
        let (mut matched, mut changed) = (0, 0);
        loop {
            let answer = client.post(&format!("/api/v1/jobs/{verb}"), body.clone()).await?;
            let count = |key: &str| print::at(&answer, key).as_u64().unwrap_or(0);
            matched += count("matched");
            changed += count("changed");
            let goes_on = print::at(&answer, "has_more") == true && count("changed") > 0;
            if goes_on {
                continue;
            }
            let has_more = print::at(&answer, "has_more") == true;
            if global.json {
                print::json(
                    &json!({"dry_run": self.dry_run, "matched": matched, "changed": changed, "has_more": has_more}),
                )?;
            } else if self.dry_run {
                let more = if has_more { " or more" } else { "" };
                print::line(format!("{verb}: would meet {matched}{more} jobs"))?;
            } else {
                print::line(format!("{verb}: {changed} of {matched} jobs"))?;
            }
            return Ok(Exit::Success);
        }
    }
}

fn outcome(job: &Value) -> String {
    let status = print::text(print::at(job, "status"));
    if print::at(job, "cancel_requested_at").is_null() { status } else { format!("{status}, asked to stop") }
}
