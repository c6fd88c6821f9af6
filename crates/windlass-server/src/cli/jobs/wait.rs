//! `windlass jobs wait`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::SignedDuration;
use serde_json::Value;

use super::enqueue::span;
use crate::cli::Global;
use crate::cli::client::{Client, check_id};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print;
use crate::cli::terminal;

const EVERY: Duration = Duration::from_millis(250);

/// Wait until jobs have ended; exit code 1 if one did not succeed.
///
/// On a terminal it shows their progress. The exit code is 0 if all succeeded and 1 if one did not.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass jobs wait 0199…\n  windlass jobs wait $A $B --timeout 10m && echo done"
)]
pub(super) struct Wait {
    /// The ids of the jobs
    #[arg(required = true)]
    ids: Vec<String>,

    /// Stop waiting after this time, such as 90s or 10m
    #[arg(long, value_name = "DURATION", value_parser = span)]
    timeout: Option<SignedDuration>,
}

impl Wait {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        self.ids.iter().try_for_each(|id| check_id("job", id))?;
        let timeout = self.timeout.map(|timeout| timeout.unsigned_abs());
        until_ended(global, &global.client().await?, &self.ids, timeout).await
    }
}

/// Polls the jobs until all have ended.
pub(super) async fn until_ended(
    global: &Global,
    client: &Client,
    ids: &[String],
    timeout: Option<Duration>,
) -> Result<Exit, Failure> {
    let started = Instant::now();
    let bar = bar(ids.len());
    let mut ended: BTreeMap<&str, Value> = BTreeMap::new();
    while ended.len() < ids.len() {
        let mut sum = ended.len() as f64 * 100.0;
        let mut state = String::new();
        for id in ids.iter().filter(|id| !ended.contains_key(id.as_str())).cloned().collect::<Vec<_>>() {
            let job = client.get(&format!("/api/v1/jobs/{id}"), &[]).await;
            let job = job.map_err(|failure| global.not_found(failure, "job", &id))?;
            let status = print::text(print::at(&job, "status"));
            if !print::at(&job, "finished_at").is_null() {
                let known = ids.iter().find(|known| **known == id).map_or("", String::as_str);
                ended.insert(known, job);
                sum += 100.0;
                continue;
            }
            sum += print::at(&job, "progress_percent").as_f64().unwrap_or(0.0);
            let message = print::text(print::at(&job, "progress_message"));
            state = if message.is_empty() { status } else { format!("{status}: {message}") };
        }
        bar.set_position((sum / ids.len() as f64) as u64);
        bar.set_message(terminal::cell(&state).into_owned());
        if ended.len() == ids.len() {
            break;
        }
        if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            bar.finish_and_clear();
            let left = ids.len() - ended.len();
            return Err(Failure::new(
                Exit::Negative,
                match (left, ids.len()) {
                    (1, 1) => format!("the job has not ended; it is {state}"),
                    (1, all) => format!("1 of {all} jobs has not ended; it is {state}"),
                    (left, all) => format!("{left} of {all} jobs have not ended; the last is {state}"),
                },
            )
            .advise("`windlass jobs show ID` shows why it is waiting"));
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            _ = tokio::signal::ctrl_c() => {
                bar.finish_and_clear();
                return Ok(Exit::Interrupted);
            }
        }
    }
    bar.finish_and_clear();
    report(&ended, global.json)
}

fn report(ended: &BTreeMap<&str, Value>, as_json: bool) -> Result<Exit, Failure> {
    let mut exit = Exit::Success;
    for (id, job) in ended {
        let status = print::text(print::at(job, "status"));
        if status != "succeeded" {
            exit = Exit::Negative;
        }
        if !as_json {
            let error = print::text(print::at(job, "last_error"));
            let because = if error.is_empty() { String::new() } else { format!(": {error}") };
            print::line(format!("{id} {status}{because}"))?;
        }
    }
    if as_json {
        let jobs: Vec<Value> = ended.values().cloned().collect();
        print::json(&if jobs.len() == 1 { jobs[0].clone() } else { Value::Array(jobs) })?;
    }
    Ok(exit)
}

/// Drawn on standard error, and only on a terminal.
fn bar(jobs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::stderr());
    let jobs = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
    let style =
        ProgressStyle::with_template(&format!("{jobs} {{bar:30}} {{pos:>3}} % {{elapsed}} {{wide_msg}}"));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
