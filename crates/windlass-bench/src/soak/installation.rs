//! The installation that is soaked: real processes of the built programs on a Postgres of its own. Two servers, three keepers, and
//! workers of all four kinds: two in Rust, one that runs commands, one that calls HTTP endpoints, two pull workers in Python.
//!
//! Every process has its own network to Postgres, so that a fault of the network can affect one of them.

pub(crate) mod cluster;
pub(crate) mod proxy;
pub(crate) mod slot;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::schedule::{Misfire, NewTrigger};
use windlass::{Queue, Settings};

use self::cluster::Cluster;
use self::proxy::Proxy;
use self::slot::{Program, Role, Slot, faketime_library};
use super::ledger::Ledger;
use super::work::{self, receiver::Receiver, rust::definition};
use super::{Site, SoakPlan};
use crate::Result;

/// The name of the event that starts jobs.
pub(crate) const EVENT_NAME: &str = "soak.happened";
/// The limits of the third tenant.
pub(crate) const MAX_QUEUED: i64 = 300;
pub(crate) const MAX_RUNNING: i64 = 4;

#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) cluster: Cluster,
    pub(crate) postgres: Arc<Slot>,
    /// All but Postgres.
    pub(crate) slots: Vec<Arc<Slot>>,
    /// The base URLs of both servers.
    pub(crate) servers: Vec<String>,
    /// Of a super-admin.
    pub(crate) token: String,
    /// Two without limits, and one with a quota and a limit on running jobs.
    pub(crate) tenants: [Uuid; 3],
    /// The schedules, with the instant of their creation by the clock of the database.
    pub(crate) schedules: Vec<(Uuid, Timestamp)>,
    /// The networks of the callers of the library and of SQL.
    pub(crate) library: Proxy,
    pub(crate) sql: Proxy,
    pub(crate) windlass: PathBuf,
    _receiver: Receiver,
    postgres_stop: CancellationToken,
    stop: CancellationToken,
    processes: JoinSet<Result<()>>,
}

/// How long the servers may take until they respond for the first time.
const READY_LIMIT: Duration = Duration::from_secs(60);

impl Installation {
    pub(crate) async fn start(site: &Site, plan: &SoakPlan) -> Result<Self> {
        let directory = &site.directory;
        for name in ["logs", "ledger", "locks", "clocks"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let ledger = &site.ledger;
        let cluster = Cluster::create(directory, plan.jobs).await?;
        let postgres = Arc::new(cluster.slot(directory.join("logs/postgres"))?);
        let (stop, postgres_stop) = (CancellationToken::new(), CancellationToken::new());
        let mut processes = JoinSet::new();
        processes.spawn(postgres.clone().run(ledger.clone(), postgres_stop.clone()));
        cluster.create_database().await?;
        let url = cluster.url(cluster.port);
        let windlass = plan.windlass()?;
        command(&windlass, &url, &["migrate"]).await?;
        let token =
            command(&windlass, &url, &["--json", "tokens", "create", "soak", "--role", "super_admin"])
                .await?;
        let token: serde_json::Value = serde_json::from_str(&token)?;
        let token = token["token"].as_str().ok_or("the output has no token")?.to_owned();
        let client = cluster.ready().await?;
        client.batch_execute(include_str!("soak.sql")).await?;
        let (tenants, schedules) = objects(&url, &windlass).await?;
        let receiver = Receiver::start(Arc::new(Ledger::open(&directory.join("ledger/receiver"))?)).await?;
        let mut installation = Self {
            library: Proxy::start(cluster.port).await?,
            sql: Proxy::start(cluster.port).await?,
            cluster,
            postgres,
            slots: Vec::new(),
            servers: Vec::new(),
            token,
            tenants,
            schedules,
            windlass,
            _receiver: receiver,
            postgres_stop,
            stop,
            processes,
        };
        installation.plan_slots(directory, plan).await?;
        for slot in &installation.slots {
            installation.processes.spawn(slot.clone().run(ledger.clone(), installation.stop.clone()));
        }
        installation.wait_for_servers().await?;
        Ok(installation)
    }

    async fn plan_slots(&mut self, directory: &Path, plan: &SoakPlan) -> Result<()> {
        for number in 1..=2 {
            let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            self.servers.push(format!("http://127.0.0.1:{port}"));
            let listen = format!("127.0.0.1:{port}");
            let (name, words) = (format!("server-{number}"), ["serve", "--listen", &listen]);
            let server = self.windlass_slot(directory, plan, &name, Role::Server, &words).await?;
            self.slots.push(Arc::new(server));
        }
        for number in 1..=3 {
            let name = format!("keeper-{number}");
            let keeper = self.windlass_slot(directory, plan, &name, Role::Keeper, &["keeper"]).await?;
            self.slots.push(Arc::new(keeper));
        }
        for (name, role, text) in [
            ("command", Role::CommandWorker, command_file(directory)?),
            ("http", Role::HttpWorker, http_file(&self._receiver.place)),
        ] {
            let file = directory.join(format!("{name}.toml"));
            fs::write(&file, text)?;
            let file = file.display().to_string();
            let words = ["worker", "--no-keeper", "--config", &file];
            let worker = self.windlass_slot(directory, plan, &format!("{name}-worker"), role, &words).await?;
            self.slots.push(Arc::new(worker));
        }
        for number in 1..=2 {
            let name = format!("rust-worker-{number}");
            let ledger = directory.join("ledger").join(&name).display().to_string();
            let proxy = Proxy::start(self.cluster.port).await?;
            let environment = vec![
                ("DATABASE_URL".to_owned(), self.cluster.url(proxy.port)),
                ("RUST_BACKTRACE".to_owned(), "0".to_owned()),
            ];
            let arguments = vec![work::rust::PROCESS.to_owned(), ledger];
            let path = std::env::current_exe()?;
            let program = Program { path, arguments, environment, user: None };
            let mut worker = Slot::new(&name, Role::RustWorker, program, directory.join("logs").join(&name));
            worker.proxy = Some(proxy);
            // The clock of one of them is wrong.
            if number == 2 && faketime_library().is_some() {
                let clock = directory.join("clocks").join(&name);
                fs::write(&clock, "+0\n")?;
                worker.clock = Some(clock);
            }
            self.slots.push(Arc::new(worker));
        }
        for (number, server) in self.servers.clone().iter().enumerate() {
            self.slots.push(Arc::new(pull_worker(directory, number + 1, server, &self.token)?));
        }
        Ok(())
    }

    /// A process of the program `windlass`, with its own network.
    async fn windlass_slot(
        &self,
        directory: &Path,
        plan: &SoakPlan,
        name: &str,
        role: Role,
        words: &[&str],
    ) -> Result<Slot> {
        let proxy = Proxy::start(self.cluster.port).await?;
        let environment = [
            ("DATABASE_URL", self.cluster.url(proxy.port).as_str()),
            ("WINDLASS_LOG", "info"),
            ("WINDLASS_LOG_JOBS", "false"),
            ("WINDLASS_LOG_FORMAT", "json"),
            ("WINDLASS_REQUESTS_PER_MINUTE", "10000000"),
            ("WINDLASS_TENANT_REQUESTS", "50"),
            ("WINDLASS_GRACE_SECONDS", "3"),
            ("WINDLASS_STOP_SECONDS", "3"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let arguments = words.iter().map(|word| (*word).to_owned()).collect();
        let program = Program { path: self.windlass.clone(), arguments, environment, user: None };
        let mut slot = Slot::new(name, role, program.clone(), directory.join("logs").join(name));
        slot.proxy = Some(proxy);
        if let Some(previous) = &plan.previous {
            slot.programs.push(Program { path: previous.clone(), ..program });
        }
        Ok(slot)
    }

    async fn wait_for_servers(&self) -> Result<()> {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build()?;
        let began = Instant::now();
        for server in &self.servers {
            let ready = format!("{server}/health/ready");
            while !http.get(&ready).send().await.is_ok_and(|response| response.status().is_success()) {
                if began.elapsed() > READY_LIMIT {
                    return Err(
                        format!("{ready} did not respond within {READY_LIMIT:?}; see the logs").into()
                    );
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// Ends all processes but Postgres.
    pub(crate) async fn stop_processes(&mut self) -> Result<()> {
        self.stop.cancel();
        for _ in 0..self.slots.len() {
            if let Some(ended) = self.processes.join_next().await {
                ended??;
            }
        }
        Ok(())
    }

    pub(crate) async fn stop_postgres(&mut self) -> Result<()> {
        self.postgres_stop.cancel();
        while let Some(ended) = self.processes.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// Tenants, definitions and triggers, before anything runs.
async fn objects(url: &str, windlass: &Path) -> Result<([Uuid; 3], Vec<(Uuid, Timestamp)>)> {
    let queue = Queue::connect(Settings::new(url)?).await?;
    let a = queue.ensure_tenant("soak-a", "Soak A", 1).await?;
    let b = queue.ensure_tenant("soak-b", "Soak B", 3).await?;
    let (queued, running) = (MAX_QUEUED.to_string(), MAX_RUNNING.to_string());
    command(
        windlass,
        url,
        &["tenants", "create", "soak-c", "--max-queued", &queued, "--max-running", &running],
    )
    .await?;
    let c = queue.ensure_tenant("soak-c", "Soak C", 1).await?;
    use work::{BRIEF, CHILD, COMMAND, EFFECT, EVENT, HTTP, LIMITED, PULL, TICK, WORK};
    for key in [WORK, LIMITED, EFFECT, BRIEF, EVENT, TICK, CHILD, COMMAND, HTTP, PULL] {
        queue.define(&definition(key)).await?;
    }
    let mut schedules = Vec::new();
    for tenant in [a, b] {
        let event = NewTrigger::event("event", EVENT_NAME, EVENT)
            .payload_template(json!({"n": "{{event.n}}", "ms": 1}))
            .dedupe_window_seconds(0);
        queue.create_trigger(tenant, &event, "soak").await?;
        let schedule = NewTrigger::schedule("every minute", "* * * * *", TICK)
            .misfire(Misfire::FireAll)
            .misfire_max(1000)
            .payload_template(json!({"n": 0, "ms": 1}));
        let trigger = queue.create_trigger(tenant, &schedule, "soak").await?;
        schedules.push((trigger.id, trigger.next_due_at.ok_or("a schedule without a next instant")?));
    }
    Ok(([a, b, c], schedules))
}

fn command_file(directory: &Path) -> Result<String> {
    let (key, lease, process) = (work::COMMAND, work::LEASE_SECONDS, work::command::PROCESS);
    let (program, directory) = (std::env::current_exe()?.display().to_string(), directory.display());
    Ok(format!(
        "[worker]\nconcurrency = 4\nlease = \"{lease}s\"\n[commands.\"{key}\"]\nstdin = \"payload\"\ngrace = \"1s\"\n\
         argv = [\"{program}\", \"{process}\", \"{directory}/ledger/commands\", \"{directory}/locks\", \"{{job.id}}\", \"{{attempt}}\"]\n"
    ))
}

fn http_file(place: &str) -> String {
    let (key, lease) = (work::HTTP, work::LEASE_SECONDS);
    format!(
        "[worker]\nconcurrency = 10\nlease = \"{lease}s\"\n[http.\"{key}\"]\nurl = \"http://{place}/\"\ntimeout = 5\n\
         allow = [\"{place}\"]\n"
    )
}

fn pull_worker(directory: &Path, number: usize, server: &str, token: &str) -> Result<Slot> {
    let name = format!("pull-worker-{number}");
    let script = directory.join("pull_worker.py");
    fs::write(&script, include_str!("work/pull_worker.py"))?;
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let environment = [
        ("PYTHONPATH", client.display().to_string()),
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("WINDLASS_SERVER", server.to_owned()),
        ("WINDLASS_TOKEN", token.to_owned()),
        ("SOAK_LEDGER", directory.join("ledger").join(&name).display().to_string()),
        ("SOAK_LEASE", work::LEASE_SECONDS.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    let arguments = vec![script.display().to_string()];
    let program = Program { path: "python3".into(), arguments, environment, user: None };
    Ok(Slot::new(&name, Role::PullWorker, program, directory.join("logs").join(&name)))
}

/// Runs the program on the database and returns its output.
pub(crate) async fn command(windlass: &Path, url: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(windlass).args(["--database-url", url]).args(words).output().await?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("windlass {}: {error}", words.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
