//! `windlass doctor`.

use clap::Args;
use serde_json::{Value, json};
use windlass::setup::Severity;

use super::Global;
use super::exit::{Exit, Failure};
use super::print::{self, Show};

/// Check the database and report problems with advice.
///
/// It checks the server version, the settings that durability depends on, schema drift, the oldest transaction and its owner,
/// bloat, stale workers, stuck jobs and lost notifications. It changes nothing. Exit code 1 means that it found a dangerous condition.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass doctor --database-url postgresql://app@db/app\n  \
    windlass doctor --strict --json   # in a cron job: warnings count too")]
pub(crate) struct Doctor {
    /// Exit with code 1 on warnings too
    #[arg(long)]
    strict: bool,

    /// Show only problems
    #[arg(long)]
    quiet: bool,
}

impl Doctor {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let sourced = global.load(&[])?;
        let findings = windlass::setup::examine(&global.examined_database(&sourced.configuration)?).await?;
        let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Fine);
        let shown: Vec<Value> = findings
            .iter()
            .filter(|finding| !self.quiet || finding.severity != Severity::Fine)
            .map(|finding| json!(finding))
            .collect();
        if global.json {
            print::json(&json!({"worst": worst, "findings": shown}))?;
        } else {
            let columns = [
                ("", Show::With(|row| mark(row).to_owned())),
                ("CHECK", Show::Plain("check")),
                ("FOUND", Show::Wrap("found")),
                ("TRY", Show::Wrap("advice")),
            ];
            print::table(&shown, &columns, "nothing to report")?;
        }
        let limit = if self.strict { Severity::Warning } else { Severity::Danger };
        Ok(if worst >= limit { Exit::Negative } else { Exit::Success })
    }
}

fn mark(row: &Value) -> &'static str {
    match row.get("severity").and_then(Value::as_str) {
        Some("fine") => "ok",
        Some("warning") => "warning",
        _ => "danger",
    }
}
