//! `windlass audit`.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::Global;
use super::client::list_of;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub struct Audit {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists who did what, newest first
    #[command(alias = "ls")]
    List {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u16,
        /// Only this action, such as job.cancel
        #[arg(long)]
        action: Option<String>,
    },
    /// Follows the chain of hashes from the first entry to the last; code 1 if one was changed or removed
    Verify,
}

const PATH: &str = "/api/v1/admin/audit";

impl Audit {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        match &self.verb {
            Verb::List { limit, action } => {
                let mut query = vec![("limit", limit.to_string())];
                query.extend(action.clone().map(|action| ("action", action)));
                let page = client.get(PATH, &query).await?;
                if global.json {
                    print::json(&page)?;
                } else {
                    show(&list_of(&page))?;
                }
                Ok(Exit::Success)
            }
            Verb::Verify => {
                let answer = client.get(&format!("{PATH}/verify"), &[]).await?;
                let is_whole =
                    ["is_whole", "ok", "valid", "is_valid"].iter().any(|key| at(&answer, key) == true);
                if global.json {
                    print::json(&answer)?;
                } else if is_whole {
                    print::line("the chain is whole")?;
                } else {
                    print::line(format!("the chain is BROKEN: {}", text(&answer)))?;
                }
                Ok(if is_whole { Exit::Success } else { Exit::Negative })
            }
        }
    }
}

fn show(entries: &[Value]) -> Result<(), Failure> {
    print::table(
        entries,
        &[
            ("WHEN", Show::Age("at")),
            ("WHO", Show::Plain("actor")),
            ("ACTION", Show::Plain("action")),
            ("TARGET", Show::Plain("target")),
            ("TENANT", Show::Plain("tenant_id")),
        ],
        "nothing was done yet",
    )
}
