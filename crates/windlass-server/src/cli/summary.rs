//! `windlass summary`.

use clap::Args;
use serde_json::Value;

use super::Global;
use super::exit::{Exit, Failure};
use super::print;

/// Counts jobs by status, with the age of the oldest that waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass summary --tenant acme\n  windlass summary --all\n  \
    windlass summary --json | jq .running")]
pub struct Summary {
    /// Across all tenants (super-admin)
    #[arg(long)]
    all: bool,
}

impl Summary {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let path = if self.all { "/api/v1/admin/summary" } else { "/api/v1/jobs/summary" };
        let summary = global.client().await?.get(path, &[]).await?;
        if global.json {
            print::json(&summary)?;
        } else {
            print::facts(&flat(&summary, ""))?;
        }
        Ok(Exit::Success)
    }
}

/// Numbers and texts of an object, its inner objects with their names in front.
fn flat<'a>(summary: &'a Value, _: &str) -> Vec<(&'a str, String)> {
    let mut facts = Vec::new();
    for (name, value) in summary.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => facts.extend(flat(value, name)),
            Value::Array(_) => {}
            Value::Null => facts.push((name.as_str(), "–".to_owned())),
            Value::Number(number) if name.ends_with("_seconds") => {
                facts.push((name.as_str(), print::span(number.as_f64().unwrap_or(0.0) as i64)));
            }
            other => facts.push((name.as_str(), print::text(other))),
        }
    }
    facts
}
