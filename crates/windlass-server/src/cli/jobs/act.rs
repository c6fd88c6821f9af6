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

/// The most ids that one call accepts.
const MAX_IDS: usize = 1000;

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
            (false, true) if !self.dry_run => match &self.ids[..] {
                [id] => self.run_one(global, &client, verb, id).await,
                _ => self.run_each(global, &client, verb).await,
            },
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

    async fn run_one(&self, global: &Global, client: &Client, verb: &str, id: &str) -> Result<Exit, Failure> {
        let job = client.post(&format!("/api/v1/jobs/{}/{verb}", segment(id)), json!({})).await?;
        if global.json {
            print::json(&job)?;
        } else {
            print::line(format!("{id} {}", outcome(&job)))?;
        }
        Ok(Exit::Success)
    }

    /// One call for up to a thousand jobs. A job that cannot be changed does not stop the others; the exit code is that of the first
    /// one.
    async fn run_each(&self, global: &Global, client: &Client, verb: &str) -> Result<Exit, Failure> {
        let mut results = Vec::new();
        for ids in self.ids.chunks(MAX_IDS) {
            let response = client.post(&format!("/api/v1/jobs/{verb}"), json!({"ids": ids})).await?;
            results.extend(print::at(&response, "results").as_array().into_iter().flatten().cloned());
        }
        let place = |result: &Value| {
            let id = print::text(print::at(result, "id"));
            self.ids.iter().position(|wanted| wanted.eq_ignore_ascii_case(&id))
        };
        results.sort_by_key(place);
        let mut failed = None;
        for result in &results {
            let (id, outcome) =
                (print::text(print::at(result, "id")), print::text(print::at(result, "outcome")));
            let (words, exit) = result_words(verb, &outcome);
            match exit {
                Exit::Success if global.json => {}
                Exit::Success => print::line(format!("{id} {words}"))?,
                exit => {
                    print::note(format!("{id}: {words}"));
                    failed.get_or_insert(exit);
                }
            }
        }
        if global.json {
            print::json(&Value::Array(results))?;
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

/// The result for one of several jobs in words, and the exit code of such a command.
fn result_words(verb: &str, outcome: &str) -> (String, Exit) {
    let (words, exit) = match outcome {
        "requested" => ("running, cancel requested", Exit::Success),
        "finished" => ("had already finished", Exit::Success),
        "missing" => ("job not found", Exit::Missing),
        "not_finished" => ("has not finished", Exit::Conflict),
        "past_deadline" => ("its deadline has passed", Exit::Conflict),
        "duplicate" => ("another job holds its dedupe key", Exit::Conflict),
        "canceled" | "queued" | "blocked" => (outcome, Exit::Success),
        _ => return (format!("{verb}: {outcome}"), Exit::Internal),
    };
    (words.to_owned(), exit)
}

fn outcome(job: &Value) -> String {
    let status = print::text(print::at(job, "status"));
    if print::at(job, "cancel_requested_at").is_null() {
        status
    } else {
        format!("{status}, cancel requested")
    }
}
