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
    /// List tenants
    #[command(alias = "ls")]
    List,
    /// Create a tenant and print its id
    #[command(after_help = "Example:\n  windlass tenants create acme --name 'Acme Ltd' --weight 3")]
    Create {
        /// The short name: lowercase letters, digits, - and _
        slug: String,
        /// The display name [default: the slug]
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change a tenant
    #[command(after_help = "Examples:\n  windlass tenants set acme --weight 5 --max-queued 10000\n  \
        windlass tenants set acme --suspend")]
    Set {
        /// The slug or id of the tenant
        tenant: String,
        /// The new display name
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        settings: Settings,
        /// Suspend the tenant: new jobs are rejected and no jobs start
        #[arg(long, conflicts_with = "resume")]
        suspend: bool,
        /// End the suspension
        #[arg(long)]
        resume: bool,
    },
    /// Delete a tenant and all its data, in batches
    #[command(after_help = "Example:\n  windlass tenants delete acme --yes")]
    Delete {
        /// The slug or id of the tenant
        tenant: String,
        /// Confirm the deletion
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Settings {
    /// The share of the workers, relative to other tenants
    #[arg(long)]
    weight: Option<u16>,
    /// The maximum number of unfinished jobs
    #[arg(long, value_name = "JOBS")]
    max_queued: Option<u64>,
    /// The maximum number of jobs that run at the same time
    #[arg(long, value_name = "JOBS")]
    max_running: Option<u32>,
    /// The maximum number of requests per minute, over all its tokens
    #[arg(long, value_name = "REQUESTS")]
    requests_per_minute: Option<u32>,
    /// The maximum number of lanes: combinations of definition, queue and priority (default 1000)
    #[arg(long, value_name = "LANES")]
    max_lanes: Option<u32>,
    /// The maximum number of queue names (default 200)
    #[arg(long, value_name = "NAMES")]
    max_queue_names: Option<u32>,
    /// The maximum number of triggers (default 1000)
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
        let response = match &self.verb {
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
                    return Err(Failure::usage("no changes given")
                        .advise("`windlass tenants set --help` lists the settings"));
                }
                let id = client.tenant_id(tenant).await?;
                client.patch(&format!("{PATH}/{id}"), Value::Object(body)).await?
            }
            Verb::Delete { tenant, yes } => {
                if !yes {
                    return Err(Failure::usage(format!(
                        "this permanently deletes {tenant} with all its jobs and history"
                    ))
                    .advise("add --yes to confirm"));
                }
                let id = client.tenant_id(tenant).await?;
                client.delete(&format!("{PATH}/{id}")).await?
            }
        };
        print::response(global.json, &response, |response| match &self.verb {
            Verb::Create { .. } => print::line(text(at(response, "id"))),
            Verb::Delete { tenant, .. } => print::line(format!("{tenant} is being deleted")),
            Verb::List | Verb::Set { .. } => show(std::slice::from_ref(response)),
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
        "no tenants; `windlass tenants create SLUG` creates one",
    )
}

/// The status; for a tenant that is being deleted, also the progress and what blocks it.
fn state(tenant: &Value) -> String {
    let status = text(at(tenant, "status"));
    if status != "deleting" {
        return status;
    }
    let deleted = text(at(tenant, "purged_jobs"));
    match tenant["purge_blocked"].as_str() {
        Some(reason) => format!("deleting ({deleted} jobs deleted; blocked: {reason})"),
        None => format!("deleting ({deleted} jobs deleted)"),
    }
}
