//! The HTTP API, measured from outside: a separate `windlass serve`, compared with the same work through the library.
//!
//! Measured: single enqueues over HTTP by 64 connections, compared with the library with as many; lists and summaries with a long
//! history, one caller at a time; and the memory of the server, idle and after the load. The binary must be next to this one, so
//! build both: `cargo build --release -p windlass-server -p windlass-bench`.

mod connection;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::Result;
use crate::driver::{self, SinglePlan};
use crate::noop;
use crate::percentile::percentile;
use crate::process::{cpu_seconds, memory_kb};
use crate::server::Server;
use crate::suite::fill;
pub(crate) use connection::Connection;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ApiPlan {
    /// Jobs per enqueue run.
    pub(crate) n: u64,
    pub(crate) callers: usize,
    /// Finished jobs in the database while lists are read.
    pub(crate) history: u64,
    /// Reads of each kind.
    pub(crate) reads: usize,
}

pub(crate) async fn run(plan: &ApiPlan) -> Result<()> {
    let server = Server::start().await?;
    println!("{}", json!({"server": server.description().await?}));
    enqueue(&server, plan).await?;
    read(&server, plan).await?;
    server.stop().await
}

async fn enqueue(server: &Server, plan: &ApiPlan) -> Result<()> {
    let url = server.fresh_database().await?;
    let single = SinglePlan { n: plan.n, callers: plan.callers };
    let library = plan.n as f64 / driver::single::run(&url, &single).await?;
    let url = server.fresh_database().await?;
    noop::warm_queue(&url, 1).await?;
    let windlass = Windlass::start(&url).await?;
    let idle_kb = windlass.memory_kb();
    let body = format!("{{\"definition_key\":\"{}\",\"payload\":{}}}", noop::KEY, noop::payload());
    // Warm up, as for the library: all connections of the callers and of the server are open.
    windlass.post_all("/api/v1/jobs", &body, plan.callers as u64 * 4, plan.callers).await?;
    let began = Instant::now();
    windlass.post_all("/api/v1/jobs", &body, plan.n, plan.callers).await?;
    let http = plan.n as f64 / began.elapsed().as_secs_f64();
    let loaded_kb = windlass.memory_kb();
    windlass.stop().await?;
    println!(
        "{}",
        json!({"enqueue_one_by_one": {"callers": plan.callers, "jobs": plan.n, "library_per_second": library.round(),
            "http_per_second": http.round(), "ratio": (http / library * 1000.0).round() / 1000.0},
            "memory_kb": {"idle": idle_kb, "after_load": loaded_kb}})
    );
    Ok(())
}

async fn read(server: &Server, plan: &ApiPlan) -> Result<()> {
    let url = server.fresh_database().await?;
    noop::warm_queue(&url, 1).await?;
    fill(&url, noop::KEY, plan.history).await?;
    server.settle_down().await?;
    let windlass = Windlass::start(&url).await?;
    let mut connection = windlass.connect().await?;
    for (name, path) in [
        ("list", "/api/v1/jobs?limit=50"),
        ("list_succeeded", "/api/v1/jobs?limit=50&status=succeeded"),
        ("list_by_definition", "/api/v1/jobs?limit=50&definition_key=bench.noop"),
        ("summary", "/api/v1/jobs/summary"),
    ] {
        let mut milliseconds = Vec::with_capacity(plan.reads);
        for _ in 0..plan.reads {
            let began = Instant::now();
            let (status, _) = connection.call("GET", path, &windlass.token, "").await?;
            if status != 200 {
                return Err(format!("{path} returned {status}").into());
            }
            milliseconds.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        let of = |share| percentile(&milliseconds, share).map(|ms| (ms * 1000.0).round() / 1000.0);
        println!(
            "{}",
            json!({name: {"history": plan.history, "reads": plan.reads, "p50_ms": of(0.5), "p99_ms": of(0.99)}})
        );
    }
    windlass.stop().await
}

/// A `windlass serve` and a super-admin token for it.
pub(crate) struct Windlass {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Windlass {
    pub(crate) async fn start(url: &str) -> Result<Self> {
        let token = new_token(url, &[], "super_admin").await?;
        // In a session of its own, like a service: Linux divides the processors among sessions.
        let mut child = Command::new("setsid")
            .arg(binary()?)
            .args(["--database-url", url, "serve", "--listen", "127.0.0.1:0", "--with-keeper"])
            .env("WINDLASS_REQUESTS_PER_MINUTE", "10000000")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("the child process has no output")?).lines();
        let address = loop {
            let line = lines.next_line().await?.ok_or("windlass serve ended before it was ready")?;
            if let Some(address) = line.strip_prefix("ready: http://") {
                break address.trim_end_matches('/').to_owned();
            }
        };
        Ok(Self { child, address, token })
    }

    /// An operator token of this tenant.
    pub(crate) async fn token_of(&self, url: &str, tenant: &str) -> Result<String> {
        new_token(url, &["--tenant", tenant], "operator").await
    }

    async fn connect(&self) -> Result<Connection> {
        Connection::open(&self.address).await
    }

    async fn post_all(&self, path: &'static str, body: &str, n: u64, callers: usize) -> Result<()> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut tasks: JoinSet<Result<()>> = JoinSet::new();
        for _ in 0..callers {
            let mut connection = self.connect().await?;
            let (taken, body, token) = (taken.clone(), body.to_owned(), self.token.clone());
            tasks.spawn(async move {
                while taken.fetch_add(1, Ordering::Relaxed) < n {
                    let (status, body) = connection.call("POST", path, &token, &body).await?;
                    if status != 201 {
                        return Err(format!("{path} returned {status}: {body}").into());
                    }
                }
                Ok(())
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    }

    /// Processor time that the server has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id().unwrap_or_default()).unwrap_or_default()
    }

    fn memory_kb(&self) -> u64 {
        memory_kb(&format!("/proc/{}/status", self.child.id().unwrap_or_default()), "VmRSS:").unwrap_or(0)
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}

async fn new_token(url: &str, of: &[&str], role: &str) -> Result<String> {
    let made = Command::new(binary()?)
        .args(["--database-url", url, "--json"])
        .args(of)
        .args(["tokens", "create", "bench", "--role", role])
        .stdin(Stdio::null())
        .output()
        .await?;
    let made: Value = serde_json::from_slice(&made.stdout)
        .map_err(|error| format!("no token: {error}: {}", String::from_utf8_lossy(&made.stderr)))?;
    Ok(made["token"].as_str().ok_or("the output has no token")?.to_owned())
}

/// The server binary next to this one.
fn binary() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("windlass");
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} does not exist: build windlass-server too", path.display()).into())
    }
}
