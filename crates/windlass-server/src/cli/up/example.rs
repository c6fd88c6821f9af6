//! `windlass up --example NAME`: a folder with an `example.toml` that says what to load and what to run beside the server.
//!
//! How it stops: its processes are told to end, and killed if they have not after a few seconds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use windlass::Queue;

use crate::cli::client::Client;
use crate::cli::definitions;
use crate::cli::exit::{Exit, Failure};
use crate::cli::print;

const MANIFEST: &str = "example.toml";
const GRACE: Duration = Duration::from_secs(5);

/// What a folder says of itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    description: String,
    #[serde(default)]
    tenants: Vec<Tenant>,
    /// A file as `windlass definitions apply` takes it.
    definitions: Option<PathBuf>,
    /// Programs, in this order.
    #[serde(default)]
    run: Vec<Program>,
    #[serde(default)]
    jobs: Vec<Job>,
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tenant {
    slug: String,
    name: String,
}

/// `{windlass}`, `{server}` and `{database_url}` stand for this program and what it serves; the environment has them too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// A step that must be through before the next one, instead of a process that stays.
    #[serde(default)]
    wait: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    tenant: Option<String>,
    /// Enqueues it again and again.
    every_seconds: Option<u64>,
    /// The body of `POST /api/v1/jobs`.
    body: Map<String, Value>,
}

/// Where the example's programs find what `up` serves.
pub(super) struct Surroundings {
    pub(super) server: String,
    pub(super) database_url: String,
    pub(super) token: String,
}

impl Example {
    /// `name` is a folder of `examples/` here, or the path of one anywhere.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let folder = if name.contains('/') { PathBuf::from(name) } else { Path::new("examples").join(name) };
        let manifest = folder.join(MANIFEST);
        let text = std::fs::read_to_string(&manifest).map_err(|error| {
            Failure::usage(format!("--example {name}: cannot read {}: {error}", manifest.display()))
                .advise(format!("name a folder with an {MANIFEST}; here there are: {}", known().join(", ")))
        })?;
        let mut example: Self = toml::from_str(&text)
            .map_err(|error| Failure::usage(format!("{}: {error}", manifest.display())))?;
        example.folder = std::path::absolute(folder)?;
        Ok(example)
    }

    /// Makes its tenants and definitions.
    pub(super) async fn load(&self, queue: &Queue, client: &Client) -> Result<(), Failure> {
        for tenant in &self.tenants {
            queue.ensure_tenant(&tenant.slug, &tenant.name, 1).await?;
        }
        if let Some(file) = &self.definitions {
            definitions::apply(client, &self.folder.join(file)).await?;
        }
        Ok(())
    }

    /// Starts its programs; those that are steps are waited for.
    pub(super) async fn start(&self, around: &Surroundings) -> Result<Programs, Failure> {
        print::note(format!("the example: {}", self.description));
        let mut programs = Programs { children: Vec::new() };
        for program in &self.run {
            let mut child = self.spawn(program, around)?;
            if program.wait {
                let status = child.wait().await?;
                if !status.success() {
                    programs.stop().await;
                    return Err(Failure::new(
                        Exit::Unreachable,
                        format!("{} ended with {status}", program.argv.join(" ")),
                    ));
                }
            } else {
                programs.children.push(child);
            }
        }
        Ok(programs)
    }

    fn spawn(&self, program: &Program, around: &Surroundings) -> Result<Child, Failure> {
        let this = std::env::current_exe()?.display().to_string();
        let fill = |text: &String| {
            let text = text.replace("{windlass}", &this).replace("{server}", &around.server);
            text.replace("{database_url}", &around.database_url)
        };
        let argv: Vec<String> = program.argv.iter().map(fill).collect();
        let Some((name, arguments)) = argv.split_first() else {
            return Err(Failure::usage(format!("{MANIFEST}: a program with an empty argv")));
        };
        let mut command = Command::new(name);
        command.args(arguments).current_dir(&self.folder).stdin(std::process::Stdio::null());
        // Its own group, so that ctrl-C at the terminal reaches it through us and in our order.
        command.process_group(0).kill_on_drop(true).stdout(std::io::stderr());
        command.env("WINDLASS_SERVER", &around.server).env("WINDLASS_URL", &around.server);
        command.env("WINDLASS_TOKEN", &around.token).env("DATABASE_URL", &around.database_url);
        command.envs(program.env.iter().map(|(name, value)| (name, fill(value))));
        command.spawn().map_err(|error| Failure::usage(format!("{MANIFEST}: cannot run {name}: {error}")))
    }

    /// Enqueues its jobs, some of them again and again, until told to stop.
    pub(super) async fn ask(self, client: Client, stop: CancellationToken) {
        let mut asking = tokio::task::JoinSet::new();
        for job in self.jobs.clone() {
            asking.spawn(ask_for(client.clone(), job, stop.clone()));
        }
        while asking.join_next().await.is_some() {}
    }
}

async fn ask_for(client: Client, job: Job, stop: CancellationToken) {
    let client = match client.for_tenant(job.tenant.as_deref()).await {
        Ok(client) => client,
        Err(failure) => return tracing::error!(%failure, "the example's job has no tenant"),
    };
    loop {
        if let Err(failure) = client.post("/api/v1/jobs", Value::Object(job.body.clone())).await {
            tracing::warn!(%failure, "a job of the example was not enqueued");
        }
        let Some(every) = job.every_seconds else { return };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(every.max(1))) => {}
        }
    }
}

/// Processes of an example.
pub(super) struct Programs {
    children: Vec<Child>,
}

impl Programs {
    pub(super) async fn stop(mut self) {
        for child in &self.children {
            if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
                // Gone already is as good.
                let _ = kill_process_group(id, Signal::TERM);
            }
        }
        for child in &mut self.children {
            if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                let _ = child.kill().await;
            }
        }
    }
}

fn known() -> Vec<String> {
    let folders = std::fs::read_dir("examples").into_iter().flatten().flatten();
    let mut names: Vec<String> = folders
        .filter(|folder| folder.path().join(MANIFEST).is_file())
        .map(|folder| folder.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    if names.is_empty() { vec!["none".to_owned()] } else { names }
}
