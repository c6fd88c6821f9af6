//! `windlass triggers`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::client::Client;
use super::exit::{Exit, Failure};
use super::number::number;
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct TriggersCommand {
    #[command(subcommand)]
    verb: TriggersVerb,
}

#[derive(Debug, Subcommand)]
enum TriggersVerb {
    /// List the triggers of the tenant
    #[command(alias = "ls")]
    List,
    /// Show one trigger and its last fires
    Show {
        /// The id of the trigger, or its label
        trigger: String,
    },
    /// Run a trigger now, also if it is paused; print the id of the job
    #[command(
        after_help = "Examples:\n  windlass triggers run nightly --tenant acme\n  windlass triggers run 'on upload' --event '{\"file\": 1}'"
    )]
    Run {
        /// The id of the trigger, or its label
        trigger: String,
        /// The payload of the event to simulate, for an event trigger
        #[arg(long, value_name = "JSON")]
        event: Option<String>,
    },
    /// Print the next runs of a schedule
    Preview {
        /// The id of the schedule, or its label
        trigger: String,
        /// How many runs
        #[arg(long, default_value_t = 5, value_parser = number::<1, 1000>)]
        count: u64,
    },
    /// Pause a trigger: it starts no jobs
    Pause {
        /// The id of the trigger, or its label
        trigger: String,
    },
    /// Let a paused trigger start jobs again
    Resume {
        /// The id of the trigger, or its label
        trigger: String,
    },
}

const PATH: &str = "/api/v1/jobs/triggers";

impl TriggersCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        match &self.verb {
            TriggersVerb::List => print::list(global.json, client.all(PATH, &[]).await?, show),
            TriggersVerb::Show { trigger } => {
                let mut found = find(&client, trigger).await?;
                let fires =
                    client.get(&format!("{}/fires", path(&found)), &[("limit", "10".to_owned())]).await?;
                found["fires"] = at(&fires, "fires").clone();
                print::response(global.json, &found, show_one)
            }
            TriggersVerb::Run { trigger, event } => {
                let mut body = json!({});
                if let Some(event) = event {
                    body["event"] = serde_json::from_str(event)
                        .map_err(|error| Failure::usage(format!("--event: {error}")))?;
                }
                let found = find(&client, trigger).await?;
                let fired = client.post(&format!("{}/run", path(&found)), body).await?;
                print::response(global.json, &fired, |fired| {
                    let job = text(at(fired, "job_id"));
                    let skipped = || format!("skipped: {}", text(at(fired, "reason")));
                    print::line(if job.is_empty() { skipped() } else { job })
                })
            }
            TriggersVerb::Preview { trigger, count } => {
                let found = find(&client, trigger).await?;
                let runs =
                    client.get(&format!("{}/preview", path(&found)), &[("count", count.to_string())]).await?;
                print::response(global.json, &runs, |runs| {
                    let rows = at(runs, "runs").as_array().cloned().unwrap_or_default();
                    print::table(&rows, RUNS, "the schedule has no further runs")
                })
            }
            TriggersVerb::Pause { trigger } => set(&client, global, trigger, false).await,
            TriggersVerb::Resume { trigger } => set(&client, global, trigger, true).await,
        }
    }
}

const RUNS: &[(&str, Show)] = &[
    ("DUE", Show::Plain("due_at")),
    ("LOCAL TIME", Show::Plain("local")),
    ("NOTE", Show::Plain("clock_change")),
];

fn path(trigger: &Value) -> String {
    format!("{PATH}/{}", text(at(trigger, "id")))
}

/// The trigger with this id, or the only one with this label.
async fn find(client: &Client, name: &str) -> Result<Value, Failure> {
    if name.parse::<uuid::Uuid>().is_ok() {
        return client.get(&format!("{PATH}/{name}"), &[]).await.map_err(|failure| failure.about("trigger"));
    }
    let mut found = client.all(PATH, &[]).await?;
    found.retain(|trigger| at(trigger, "label") == name);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::new(Exit::Missing, format!("trigger {name:?} not found"))
            .advise("`windlass triggers list` lists the triggers of the tenant")),
        many => Err(Failure::usage(format!("{many} triggers have the label {name:?}"))
            .advise("name it by its id: `windlass triggers list` shows the ids")),
    }
}

async fn set(client: &Client, global: &Global, name: &str, is_enabled: bool) -> Result<Exit, Failure> {
    let found = find(client, name).await?;
    let changed = client.patch(&path(&found), json!({"is_enabled": is_enabled})).await?;
    let done = if is_enabled { "resumed" } else { "paused" };
    print::response(global.json, &changed, |_| print::line(format!("{}: {done}", text(at(&found, "label")))))
}

fn state(trigger: &Value) -> String {
    if at(trigger, "is_enabled") == true { "active".into() } else { "paused".into() }
}

/// A schedule in words, or the name of the event.
fn fires_on(trigger: &Value) -> String {
    let words = text(at(trigger, "in_words"));
    let cron = text(at(trigger, "cron_expr"));
    let name = [words, cron, text(at(trigger, "event_name"))].into_iter().find(|part| !part.is_empty());
    name.unwrap_or_default()
}

fn show(triggers: &[Value]) -> Result<(), Failure> {
    print::table(
        triggers,
        &[
            ("ID", Show::Plain("id")),
            ("LABEL", Show::Plain("label")),
            ("STATE", Show::With(state)),
            ("FIRES ON", Show::Free(fires_on)),
            ("DEFINITION", Show::Plain("definition_key")),
            ("NEXT", Show::Age("next_due_at")),
        ],
        "no triggers; create one on the page Triggers or with POST /api/v1/jobs/triggers",
    )
}

fn show_one(trigger: &Value) -> Result<(), Failure> {
    let plain = |name: &'static str| text(at(trigger, name));
    print::facts(&[
        ("id", plain("id")),
        ("label", plain("label")),
        ("state", state(trigger)),
        ("fires on", fires_on(trigger)),
        ("time zone", plain("timezone")),
        ("definition", plain("definition_key")),
        ("payload", at(trigger, "payload_template").to_string()),
        ("next", plain("next_due_at")),
    ])?;
    let fires = at(trigger, "fires").as_array().cloned().unwrap_or_default();
    let columns = [
        ("DUE", Show::Plain("due_at")),
        ("OUTCOME", Show::Plain("outcome")),
        ("JOB", Show::Plain("job_id")),
        ("REASON", Show::Wrap("reason")),
    ];
    print::table(&fires, &columns, "it has not fired yet")
}
