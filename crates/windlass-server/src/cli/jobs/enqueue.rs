//! `windlass jobs enqueue`.

use std::io::Read;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::wait;
use crate::cli::Global;
use crate::cli::exit::{Exit, Failure};
use crate::cli::number::number;
use crate::cli::print;
use crate::parser_messages::json_fault;

/// Enqueue a job.
///
/// Prints the id of the job. With --wait it waits until the job has ended; the exit code is 0 if it succeeded and 1 if not.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass jobs enqueue sync-dropbox --payload '{\"provider_id\": \"…\"}' --tenant acme\n  \
    windlass jobs enqueue recompute-trained-tags --set model=siglip --in 5m --dedupe-key nightly\n  \
    generate | windlass jobs enqueue import --payload - --wait"
)]
pub(super) struct Enqueue {
    /// The key of the definition
    #[arg(value_name = "KEY")]
    definition_key: String,

    /// The payload as JSON; `-` reads standard input [default: {}]
    #[arg(long, short, value_name = "JSON")]
    payload: Option<String>,

    /// Set one field of the payload; the value is parsed as JSON if possible, otherwise it is a string
    #[arg(long, short, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// 0 to 1000; lower numbers run first
    #[arg(long, allow_negative_numbers = true, value_parser = number::<0, 1000>)]
    priority: Option<u64>,

    /// Do not start before this instant, such as 2026-02-16T10:30:00Z
    #[arg(long, value_name = "INSTANT", conflicts_with = "delay", value_parser = instant)]
    at: Option<Timestamp>,

    /// Do not start before this much time has passed, such as 90s, 5m or 2h
    #[arg(long = "in", value_name = "DURATION", value_parser = span)]
    delay: Option<SignedDuration>,

    /// Do not enqueue the job if an active job has the same key
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,

    /// An id shared by the jobs of one request
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,

    /// Wait until the job has ended, with a progress bar
    #[arg(long, short)]
    wait: bool,
}

impl Enqueue {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let mut body = Map::from_iter([
            ("definition_key".to_owned(), json!(self.definition_key)),
            ("payload".to_owned(), self.payload()?),
        ]);
        let due = self.at.or_else(|| self.delay.and_then(|delay| Timestamp::now().checked_add(delay).ok()));
        let optional = [
            ("priority", self.priority.map(|priority| json!(priority))),
            ("scheduled_for", due.map(|due| json!(due.to_string()))),
            ("dedupe_key", self.dedupe_key.as_ref().map(|key| json!(key))),
            ("correlation_id", self.correlation_id.as_ref().map(|id| json!(id))),
        ];
        body.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let (is_new, job) = client.create("/api/v1/jobs", Value::Object(body)).await?;
        let id = print::text(print::at(&job, "id"));
        if !is_new {
            print::note("no job was enqueued: an existing job holds the dedupe key");
        }
        if self.wait {
            return wait::until_ended(global, &client, &[id], None).await;
        }
        if global.json {
            print::json(&job)?;
        } else {
            print::line(&id)?;
        }
        Ok(Exit::Success)
    }

    fn payload(&self) -> Result<Value, Failure> {
        let text = match self.payload.as_deref() {
            Some("-") => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                text
            }
            Some(text) => text.to_owned(),
            None => "{}".to_owned(),
        };
        let mut payload: Value = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!("--payload is not valid JSON: {}", json_fault(&error)))
                .advise("quote it: --payload '{\"name\": \"value\"}'")
        })?;
        for pair in &self.set {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(Failure::usage(format!("--set {pair}: must be NAME=VALUE")));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            match payload.as_object_mut() {
                Some(fields) => fields.insert(name.to_owned(), value),
                None => return Err(Failure::usage("--set requires a payload that is a JSON object")),
            };
        }
        Ok(payload)
    }
}

/// An instant with a date, a time and an offset.
pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    windlass::internals::instant::read(text).ok_or_else(|| windlass::internals::instant::EXPECTED.to_owned())
}

/// `90s`, `5m`, `2h`, `1h30m`.
pub(super) fn span(text: &str) -> Result<SignedDuration, String> {
    text.parse::<SignedDuration>().map_err(|_| "must be a duration such as 90s, 5m or 2h".to_owned())
}
