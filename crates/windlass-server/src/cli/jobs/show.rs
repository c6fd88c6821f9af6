//! `windlass jobs show`.

use clap::Args;
use serde_json::{Value, json};

use super::list::attempts;
use crate::cli::Global;
use crate::cli::client::{check_id, list_of};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print::{self, at, text};

/// Show one job, its attempts, and the reason why it is waiting.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass jobs show 0199…\n  windlass jobs show 0199… --json | jq .attempts"
)]
pub(super) struct ShowCommand {
    /// The id of the job
    id: String,
}

const ENDED: [&str; 4] = ["succeeded", "failed", "dead_letter", "canceled"];

impl ShowCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        check_id("job", &self.id)?;
        let client = global.client().await?;
        let path = format!("/api/v1/jobs/{}", self.id);
        let job = client.get(&path, &[]).await;
        let job = job.map_err(|failure| global.not_found(failure, "job", &self.id))?;
        let attempts = list_of(&client.get(&format!("{path}/attempts"), &[]).await?);
        let is_waiting = !ENDED.contains(&text(at(&job, "status")).as_str());
        let why = if is_waiting { client.get(&format!("{path}/why"), &[]).await? } else { Value::Null };
        if global.json {
            print::json(&json!({"job": job, "attempts": attempts, "why": why}))?;
            return Ok(Exit::Success);
        }
        // The slug of the requested tenant; without the permission to read it, the id.
        let me = client.get("/api/v1/me", &[]).await.unwrap_or_default();
        let slug = at(&me, "tenant_slug").as_str().filter(|_| at(&me, "tenant_id") == at(&job, "tenant_id"));
        print_job(&job, slug, &why)?;
        for attempt in &attempts {
            print_attempt(attempt)?;
        }
        Ok(Exit::Success)
    }
}

fn print_job(job: &Value, slug: Option<&str>, why: &Value) -> Result<(), Failure> {
    let when = |key: &str| {
        let instant = text(at(job, key));
        if instant.is_empty() { instant } else { format!("{instant} ({})", print::age(at(job, key))) }
    };
    let json_of = |key: &str| match at(job, key) {
        Value::Null => String::new(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    let reason = [text(at(why, "reason.message")), text(at(why, "reason.remedy"))].join("\n");
    let subject = [text(at(job, "subject_type")), text(at(job, "subject_id"))].join(" ");
    print::facts(&[
        ("id", text(at(job, "id"))),
        ("definition", text(at(job, "definition_key"))),
        ("status", text(at(job, "status"))),
        ("why", reason.trim().to_owned()),
        ("error", text(at(job, "last_error"))),
        ("reason", text(at(job, "reason"))),
        ("attempts", attempts(job)),
        ("progress", progress(job)),
        ("tenant", slug.map_or_else(|| text(at(job, "tenant_id")), str::to_owned)),
        ("queue", text(at(job, "queue"))),
        ("priority", text(at(job, "priority"))),
        ("source", text(at(job, "source"))),
        ("subject", subject.trim().to_owned()),
        ("tags", text(at(job, "tags"))),
        ("dedupe key", text(at(job, "dedupe_key"))),
        ("correlation", text(at(job, "correlation_id"))),
        ("queued", when("queued_at")),
        ("due", when("scheduled_for")),
        ("started", when("started_at")),
        ("finished", when("finished_at")),
        ("worker", text(at(job, "claimed_by_worker"))),
        ("payload", json_of("payload")),
        ("result", json_of("result")),
        ("artifact", json_of("artifact")),
    ])
}

fn progress(job: &Value) -> String {
    let percent =
        at(job, "progress_percent").as_f64().map(|percent| format!("{percent:.0} %")).unwrap_or_default();
    format!("{percent} {}", text(at(job, "progress_message"))).trim().to_owned()
}

/// How long an attempt ran, if it has ended.
fn duration(attempt: &Value) -> Option<String> {
    let instant = |key: &str| at(attempt, key).as_str()?.parse::<jiff::Timestamp>().ok();
    let took = instant("finished_at")?.duration_since(instant("started_at")?);
    let seconds = took.as_secs();
    Some(if seconds < 10 { format!("{:.1} s", took.as_secs_f64().max(0.0)) } else { print::span(seconds) })
}

fn print_attempt(attempt: &Value) -> Result<(), Failure> {
    let number = text(at(attempt, "attempt_no"));
    print::line("")?;
    print::line(format!(
        "attempt {number}: {}{}, started {}{}",
        text(at(attempt, "status")),
        at(attempt, "exit_code").as_i64().map(|code| format!(" (exit code {code})")).unwrap_or_default(),
        print::age(at(attempt, "started_at")),
        duration(attempt).map(|took| format!(", took {took}")).unwrap_or_default(),
    ))?;
    print::facts(&[
        ("  worker", text(at(attempt, "worker_id"))),
        ("  error", text(at(attempt, "error_text"))),
        ("  stdout", text(at(attempt, "stdout_tail"))),
        ("  stderr", text(at(attempt, "stderr_tail"))),
    ])
}
