//! `windlass tenants`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::exit::{Exit, Failure};
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub struct Tenants {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists tenants
    #[command(alias = "ls")]
    List,
    /// Creates a tenant and prints its id
    #[command(after_help = "Example:\n  windlass tenants create acme --name 'Acme Ltd' --weight 3")]
    Create {
        /// Its short name: lower-case letters, digits and dashes
        slug: String,
        /// Its name for people; the slug if not given
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Changes a tenant
    #[command(after_help = "Examples:\n  windlass tenants set acme --weight 5 --max-queued 10000\n  \
        windlass tenants set acme --suspend")]
    Set {
        /// The tenant's slug or id
        tenant: String,
        /// Renames it
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: Settings,
        /// Takes no new jobs and runs none
        #[arg(long, conflicts_with = "resume")]
        suspend: bool,
        /// Ends a suspension
        #[arg(long)]
        resume: bool,
    },
    /// Deletes a tenant and everything of it, in batches
    #[command(after_help = "Example:\n  windlass tenants delete acme --yes")]
    Delete {
        /// The tenant's slug or id
        tenant: String,
        /// Deletes without asking
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Settings {
    /// Its share of the workers beside other tenants
    #[arg(long)]
    weight: Option<u16>,
    /// The most jobs it may have waiting
    #[arg(long, value_name = "JOBS")]
    max_queued: Option<u64>,
    /// The most of its jobs that run at the same time
    #[arg(long, value_name = "JOBS")]
    max_running: Option<u32>,
    /// The most requests per minute of all its tokens together
    #[arg(long, value_name = "REQUESTS")]
    requests_per_minute: Option<u32>,
    /// The most combinations of definition, queue and priority that its jobs may use (default 1000)
    #[arg(long, value_name = "LANES")]
    max_lanes: Option<u32>,
    /// The most queue names that its jobs may use (default 200)
    #[arg(long, value_name = "NAMES")]
    max_queue_names: Option<u32>,
    /// The most triggers that it may have (default 1000)
    #[arg(long, value_name = "TRIGGERS")]
    max_triggers: Option<u32>,
}

impl Settings {
    fn fields(&self) -> Map<String, Value> {
        let all = [
            ("weight", self.weight.map(|weight| json!(weight))),
            ("max_queued", self.max_queued.map(|jobs| json!(jobs))),
            ("max_running", self.max_running.map(|jobs| json!(jobs))),
            ("requests_per_minute", self.requests_per_minute.map(|requests| json!(requests))),
            ("max_lanes", self.max_lanes.map(|lanes| json!(lanes))),
            ("max_queue_names", self.max_queue_names.map(|names| json!(names))),
            ("max_triggers", self.max_triggers.map(|triggers| json!(triggers))),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

const PATH: &str = "/api/v1/admin/tenants";

impl Tenants {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let answer = match &self.verb {
            Verb::List => return print::list(global.json, client.all(PATH, &[]).await?, show),
            Verb::Create { slug, name, settings } => {
                let mut body = settings.fields();
                body.insert("slug".to_owned(), json!(slug));
                body.insert("name".to_owned(), json!(name.as_ref().unwrap_or(slug)));
                client.post(PATH, Value::Object(body)).await?
            }
            Verb::Set { tenant, name, settings, suspend, resume } => {
                let mut body = settings.fields();
                body.extend(name.as_ref().map(|name| ("name".to_owned(), json!(name))));
                if *suspend || *resume {
                    let status = if *suspend { "suspended" } else { "active" };
                    body.insert("status".to_owned(), json!(status));
                }
                if body.is_empty() {
                    return Err(Failure::usage("what should change?")
                        .advise("`windlass tenants set --help` lists what can"));
                }
                let id = client.tenant_id(tenant).await?;
                client.patch(&format!("{PATH}/{id}"), Value::Object(body)).await?
            }
            Verb::Delete { tenant, yes } => {
                if !yes {
                    return Err(Failure::usage(format!(
                        "this deletes {tenant} with all its jobs and history for good"
                    ))
                    .advise("the same with --yes"));
                }
                let id = client.tenant_id(tenant).await?;
                client.delete(&format!("{PATH}/{id}")).await?
            }
        };
        print::answer(global.json, &answer, |answer| match &self.verb {
            Verb::Create { .. } => print::line(text(at(answer, "id"))),
            Verb::Delete { tenant, .. } => print::line(format!("{tenant} is being deleted")),
            Verb::List | Verb::Set { .. } => show(std::slice::from_ref(answer)),
        })
    }
}

fn show(tenants: &[Value]) -> Result<(), Failure> {
    print::table(
        tenants,
        &[
            ("SLUG", Show::Plain("slug")),
            ("NAME", Show::Plain("name")),
            ("ID", Show::Plain("id")),
            ("WEIGHT", Show::Plain("weight")),
            ("MAX QUEUED", Show::Plain("max_queued")),
            ("MAX RUNNING", Show::Plain("max_running")),
            ("STATE", Show::With(state)),
            ("CREATED", Show::Age("created_at")),
        ],
        "no tenants; `windlass tenants create SLUG` makes one",
    )
}

/// One that is being deleted says how far that has come, and why it stopped if it did.
fn state(tenant: &Value) -> String {
    let status = text(at(tenant, "status"));
    if status != "deleting" {
        return status;
    }
    let gone = text(at(tenant, "purged_jobs"));
    match tenant["purge_blocked"].as_str() {
        Some(why) => format!("deleting ({gone} jobs gone; stopped: {why})"),
        None => format!("deleting ({gone} jobs gone)"),
    }
}
