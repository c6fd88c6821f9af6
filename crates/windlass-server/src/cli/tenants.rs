//! `windlass tenants`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::exit::{Exit, Failure};
use super::number::number;
use super::print::{self, Show, at, text};

#[derive(Debug, Args)]
pub(crate) struct TenantsCommand {
    #[command(subcommand)]
    verb: TenantsVerb,
}

#[derive(Debug, Subcommand)]
enum TenantsVerb {
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
        /// The id, a UUID of yours [default: a new one]
        #[arg(long)]
        id: Option<uuid::Uuid>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change a tenant
    #[command(after_help = "Examples:\n  windlass tenants set acme --weight 5 --max-queued 10000\n  \
        windlass tenants set acme --max-queued none\n  windlass tenants set acme --suspend")]
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
    /// The share of worker capacity, relative to other tenants
    #[arg(long, value_parser = number::<1, 1000>)]
    weight: Option<u64>,
    /// The maximum number of unfinished jobs; `none` removes a limit
    #[arg(long, value_name = "JOBS", value_parser = limit)]
    max_queued: Option<Limit>,
    /// The maximum number of jobs that run at the same time
    #[arg(long, value_name = "JOBS", value_parser = limit)]
    max_running: Option<Limit>,
    /// The maximum number of requests per minute, over all its tokens
    #[arg(long, value_name = "REQUESTS", value_parser = limit)]
    requests_per_minute: Option<Limit>,
    /// The maximum number of lanes: combinations of definition, queue and priority (default 1000)
    #[arg(long, value_name = "LANES", value_parser = limit)]
    max_lanes: Option<Limit>,
    /// The maximum number of queue names (default 200)
    #[arg(long, value_name = "NAMES", value_parser = limit)]
    max_queue_names: Option<Limit>,
    /// The maximum number of triggers (default 1000)
    #[arg(long, value_name = "TRIGGERS", value_parser = limit)]
    max_triggers: Option<Limit>,
}

/// A number, or `none`: no limit, or the default.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<u64>);

impl Limit {
    fn json(self) -> Value {
        json!(self.0)
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    text.parse().map(|most| Limit(Some(most))).map_err(|_| "must be a whole number, or none".to_owned())
}

impl Settings {
    fn fields(&self) -> Map<String, Value> {
        let all = [
            ("weight", self.weight.map(|weight| json!(weight))),
            ("max_queued", self.max_queued.map(Limit::json)),
            ("max_running", self.max_running.map(Limit::json)),
            ("requests_per_minute", self.requests_per_minute.map(Limit::json)),
            ("max_lanes", self.max_lanes.map(Limit::json)),
            ("max_queue_names", self.max_queue_names.map(Limit::json)),
            ("max_triggers", self.max_triggers.map(Limit::json)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

const PATH: &str = "/api/v1/admin/tenants";

impl TenantsCommand {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let mut is_held = false;
        let response = match &self.verb {
            TenantsVerb::List => return print::list(global.json, client.all(PATH, &[]).await?, show),
            TenantsVerb::Create { slug, name, id, settings } => {
                let mut body = settings.fields();
                body.insert("slug".to_owned(), json!(slug));
                body.extend(id.map(|id| ("id".to_owned(), json!(id))));
                body.insert("name".to_owned(), json!(name.as_ref().unwrap_or(slug)));
                client.post(PATH, Value::Object(body)).await.map_err(|failure| match failure.exit {
                    Exit::Conflict => Failure {
                        message: failure.message.replace("the slug", &format!("the slug {slug:?}")),
                        ..failure
                    },
                    _ => failure,
                })?
            }
            TenantsVerb::Set { tenant, name, settings, suspend, resume } => {
                let mut body = settings.fields();
                body.extend(name.as_ref().map(|name| ("name".to_owned(), json!(name))));
                if *suspend || *resume {
                    let status = if *suspend { "suspended" } else { "active" };
                    body.insert("status".to_owned(), json!(status));
                }
                if body.is_empty() {
                    return Err(Failure::usage("no changes specified")
                        .advise("`windlass tenants set --help` lists the settings"));
                }
                let id = client.tenant_id(tenant).await?;
                client.patch(&format!("{PATH}/{id}"), Value::Object(body)).await?
            }
            TenantsVerb::Delete { tenant, yes } => {
                if !yes {
                    return Err(Failure::usage(format!(
                        "this permanently deletes {tenant} with all its jobs and history"
                    ))
                    .advise("add --yes to confirm"));
                }
                let id = client.tenant_id(tenant).await?;
                let deleted = client.delete(&format!("{PATH}/{id}")).await?;
                // Any hold of the tenant blocks the deletion. Its reason is stored only with the next round of the keeper.
                let holds =
                    client.clone().for_tenant(Some(&id)).await?.all("/api/v1/retention/holds", &[]).await;
                if holds.is_ok_and(|holds| !holds.is_empty()) {
                    print::note(format!(
                        "a legal hold blocks the deletion until it is released; `windlass holds list --tenant {tenant}` lists it"
                    ));
                    is_held = true;
                }
                deleted
            }
        };
        print::response(global.json, &response, |response| match &self.verb {
            TenantsVerb::Create { .. } => print::line(text(at(response, "id"))),
            TenantsVerb::Delete { tenant, .. } => {
                let state = if is_held {
                    "will be deleted when its legal holds are released"
                } else {
                    "is being deleted"
                };
                print::line(format!("{tenant} {state}"))
            }
            TenantsVerb::List | TenantsVerb::Set { .. } => show(std::slice::from_ref(response)),
        })
    }
}

fn show(tenants: &[Value]) -> Result<(), Failure> {
    print::table(
        tenants,
        &[
            ("SLUG", Show::Plain("slug")),
            ("NAME", Show::Cut("name", 60)),
            ("ID", Show::Plain("id")),
            ("WEIGHT", Show::Plain("weight")),
            ("MAX QUEUED", Show::Plain("max_queued")),
            ("MAX RUNNING", Show::Plain("max_running")),
            ("STATE", Show::Free(state)),
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
