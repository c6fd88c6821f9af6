//! `windlass holds`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::client::check_id;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct HoldsCommand {
    #[command(subcommand)]
    verb: HoldsVerb,
}

#[derive(Debug, Subcommand)]
enum HoldsVerb {
    /// List legal holds
    #[command(alias = "ls")]
    List,
    /// Protect a job, the jobs of a subject, or all data of the tenant from deletion; print the id of the hold
    #[command(
        after_help = "Examples:\n  windlass holds place --subject user:7 --reason 'case 12' --tenant acme\n  \
        windlass holds place --everything --reason audit --tenant acme"
    )]
    Place {
        /// The reason for the hold
        #[arg(long)]
        reason: String,
        /// The id of one job
        #[arg(long, value_name = "ID")]
        job: Option<String>,
        /// The jobs of a subject, including future ones
        #[arg(long, value_name = "TYPE:ID")]
        subject: Option<String>,
        /// All data of the tenant
        #[arg(long)]
        everything: bool,
    },
    /// Release a hold; the retention rules apply again
    Release {
        /// The id of the hold
        id: String,
    },
}

const PATH: &str = "/api/v1/retention/holds";

impl HoldsCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        match &self.verb {
            HoldsVerb::List => {
                let holds = global.client().await?.all(PATH, &[]).await?;
                if global.json { print::json(&Value::Array(holds))? } else { show(&holds)? }
            }
            HoldsVerb::Place { reason, job, subject, everything } => {
                // A hold on everything must be requested explicitly, not by omitting the other options.
                if [job.is_some(), subject.is_some(), *everything].iter().filter(|given| **given).count() != 1
                {
                    return Err(Failure::usage(
                        "specify exactly one of --job ID, --subject TYPE:ID and --everything",
                    ));
                }
                let mut body = Map::from_iter([("reason".to_owned(), json!(reason))]);
                body.extend(job.as_ref().map(|job| ("job_id".to_owned(), json!(job))));
                if let Some(subject) = subject {
                    let (kind, id) = subject.split_once(':').ok_or_else(|| {
                        Failure::usage("--subject must be TYPE:ID").advise("for example user:7")
                    })?;
                    body.insert("subject_type".to_owned(), json!(kind));
                    body.insert("subject_id".to_owned(), json!(id));
                }
                let hold = global.client().await?.post(PATH, Value::Object(body)).await?;
                if global.json { print::json(&hold)? } else { print::line(text(at(&hold, "id")))? }
            }
            HoldsVerb::Release { id } => {
                check_id("hold", id)?;
                let hold = global.client().await?.delete(&format!("{PATH}/{id}")).await;
                let hold = hold.map_err(|failure| global.not_found(failure, "hold", id))?;
                if global.json { print::json(&hold)? } else { print::line(format!("{id} released"))? }
            }
        }
        Ok(Exit::Success)
    }
}

fn show(holds: &[Value]) -> Result<(), Failure> {
    print::table(
        holds,
        &[
            ("ID", Show::Plain("id")),
            ("HOLDS", Show::With(held)),
            ("REASON", Show::Cut("reason", 60)),
            ("PLACED BY", Show::Plain("created_by")),
            ("PLACED", Show::Age("created_at")),
        ],
        "no holds: data is deleted by the retention rules",
    )
}

fn held(hold: &Value) -> String {
    match (at(hold, "job_id").as_str(), at(hold, "subject_type").as_str(), at(hold, "subject_id").as_str()) {
        (Some(job), _, _) => format!("job {job}"),
        (None, Some(kind), Some(id)) => format!("{kind}:{id}"),
        _ => "everything".to_owned(),
    }
}
