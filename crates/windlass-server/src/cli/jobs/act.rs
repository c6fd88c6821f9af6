//! `windlass jobs cancel` and `retry`: by ids, or by a filter.

use clap::Args;
use serde_json::{Value, json};

use super::list::Which;
use crate::cli::Global;
use crate::cli::client::{Client, segment};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print;

/// Cancel jobs: waiting jobs immediately, running jobs by request.
///
/// A running job receives a cancel request and is canceled when its handler stops. Specify ids, or conditions that select jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass jobs cancel 0199…\n  \
    windlass jobs cancel --status queued --definition sync-dropbox --dry-run")]
pub(super) struct Cancel {
    #[command(flatten)]
    act: Act,
}

/// Queue finished jobs again.
///
/// The attempts of each job are reset. Specify ids, or conditions that select jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass jobs retry 0199…\n  \
    windlass jobs retry --status dead_letter --definition sync-dropbox")]
pub(super) struct Retry {
    #[command(flatten)]
    act: Act,
}

#[derive(Debug, Args)]
struct Act {
    /// The ids of the jobs
    ids: Vec<String>,

    #[command(flatten)]
    which: Which,

    /// Only count the jobs that would be changed
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
            (true, true) => {
                let status = if verb == "cancel" { "queued" } else { "dead_letter" };
                Err(Failure::usage(format!("no jobs to {verb} are specified")).advise(format!(
                    "specify ids, or conditions such as --status {status} (--dry-run only counts)"
                )))
            }
            (false, false) => Err(Failure::usage("specify ids or conditions, not both")),
            (false, true) if !self.dry_run => self.run_each(global, &client, verb).await,
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

    /// One call per job: a failed one does not stop the others; the exit code is that of the first failure.
    async fn run_each(&self, global: &Global, client: &Client, verb: &str) -> Result<Exit, Failure> {
        let mut jobs = Vec::new();
        let mut failed = None;
        for id in &self.ids {
            match client.post(&format!("/api/v1/jobs/{}/{verb}", segment(id)), json!({})).await {
                Ok(job) if global.json => jobs.push(job),
                Ok(job) => print::line(format!("{id} {}", outcome(&job)))?,
                Err(failure) if self.ids.len() == 1 => return Err(failure),
                Err(failure) => {
                    print::note(format!("{id}: {failure}"));
                    failed.get_or_insert(failure.exit);
                }
            }
        }
        if global.json {
            print::json(&if self.ids.len() == 1 { jobs.remove(0) } else { Value::Array(jobs) })?;
        }
        Ok(failed.unwrap_or(Exit::Success))
    }

    /// One call changes at most a thousand jobs; the next one continues after them.
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
            let response = client.post(&format!("/api/v1/jobs/{verb}"), body.clone()).await?;
            let count = |key: &str| print::at(&response, key).as_u64().unwrap_or(0);
            matched += count("matched");
            changed += count("changed");
            let next = print::at(&response, "next_cursor");
            if next.is_string() && !self.dry_run {
                body["cursor"] = next.clone();
                continue;
            }
            let has_more = next.is_string();
            if global.json {
                print::json(
                    &json!({"dry_run": self.dry_run, "matched": matched, "changed": changed, "has_more": has_more}),
                )?;
            } else if self.dry_run {
                print::line(match (matched, has_more) {
                    (1, false) => format!("{verb}: 1 job matches"),
                    (matched, false) => format!("{verb}: {matched} jobs match"),
                    (matched, true) => format!("{verb}: {matched} or more jobs match"),
                })?;
            } else {
                print::line(format!("{verb}: {changed} of {matched} jobs"))?;
            }
            return Ok(Exit::Success);
        }
    }
}

fn outcome(job: &Value) -> String {
    let status = print::text(print::at(job, "status"));
    if print::at(job, "cancel_requested_at").is_null() {
        status
    } else {
        format!("{status}, cancel requested")
    }
}
