//! `windlass jobs tail`.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use crate::cli::Global;
use crate::cli::client::check_id;
use crate::cli::exit::{Exit, Failure};
use crate::cli::print;
use crate::cli::terminal;

/// Follow the log of a job.
///
/// It prints the log from the beginning, and ends when the job has ended or ctrl-C is pressed. The job's standard error is
/// written to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  windlass jobs tail 0199…")]
pub(super) struct Tail {
    /// The id of the job
    id: String,
}

impl Tail {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        check_id("job", &self.id)?;
        let client = global.client().await?;
        let events = client.events(&format!("/api/v1/jobs/{}/logs", self.id)).await;
        let mut events = events.map_err(|failure| global.not_found(failure, "job", &self.id))?;
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
            };
            let Some((name, data)) = event else { return Ok(Exit::Success) };
            if name == "end" {
                return Ok(Exit::Success);
            }
            if name == "revoked" {
                let about: Value = serde_json::from_str(&data).unwrap_or_default();
                let detail = about["detail"].as_str().unwrap_or("the credential is no longer valid");
                return Err(Failure::new(Exit::Denied, format!("access to the log was revoked: {detail}")));
            }
            if global.json {
                print::json_text(&data)?;
                continue;
            }
            let line: Value = serde_json::from_str(&data).unwrap_or(Value::String(data));
            let text =
                line.get("text").or_else(|| line.get("line")).map_or_else(|| print::text(&line), print::text);
            if line.get("stream").and_then(Value::as_str) == Some("stderr") {
                write_out(&mut std::io::stderr(), &text)?;
            } else {
                write_out(&mut std::io::stdout(), &text)?;
            }
        }
    }
}

/// Chunks contain their own line ends; a single line gets one.
fn write_out(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    out.write_all(terminal::log(text).as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}
