//! One measurement of one system in a process of its own, so that its CPU time is that of the client alone. The systems in Rust run in
//! this program, the others in Node; both print one line with the result.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::pgmq::Pgmq;
use super::system::{Measure, System};
use crate::Result;
use crate::driver::{self, BulkPlan, DrainPlan, LatencyPlan, SinglePlan, SteadyPlan};
use crate::process;

/// Longer than any measurement takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(900);
const DRAIN_SECONDS: u64 = 600;
const BULK_BATCH: u64 = 1000;

/// `windlass-bench peer SYSTEM MEASURE COUNT CALLERS`. The count is of jobs, or of seconds of a steady run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChildCall {
    pub(crate) system: System,
    pub(crate) measure: Measure,
    pub(crate) count: u64,
    pub(crate) callers: usize,
}

/// The line that a child prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Child {
    pub(crate) n: u64,
    pub(crate) seconds: f64,
    /// Of the child.
    pub(crate) cpu_seconds: f64,
    /// Of each job, if the latency was measured.
    #[serde(default)]
    pub(crate) ms: Vec<f64>,
}

pub(crate) async fn run(call: &ChildCall) -> Result<()> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    let mut result = match call.system {
        System::Windlass => windlass(&url, call).await?,
        System::PgmqDelete => Pgmq::deleting(&url).run(call).await?,
        System::PgmqArchive => Pgmq::archiving(&url).run(call).await?,
        System::GraphileWorker | System::PgBoss => {
            return Err(format!("the driver of {} is a program for Node", call.system.as_str()).into());
        }
    };
    result.cpu_seconds = process::cpu_seconds(std::process::id()).unwrap_or_default();
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

async fn windlass(url: &str, call: &ChildCall) -> Result<Child> {
    let (n, callers) = (call.count, call.callers);
    let done = |n, seconds| Child { n, seconds, cpu_seconds: 0.0, ms: Vec::new() };
    Ok(match call.measure {
        Measure::Bulk => {
            let plan = BulkPlan { n, callers, batch: BULK_BATCH };
            done(n, driver::bulk(url, &plan).await?)
        }
        Measure::Single => done(n, driver::single(url, &SinglePlan { n, callers }).await?),
        Measure::Drain => {
            let drained = driver::drain(url, &DrainPlan { n, seconds: DRAIN_SECONDS }).await?;
            if drained.left > 0 {
                return Err(format!("{} jobs were left after {DRAIN_SECONDS} s", drained.left).into());
            }
            done(drained.n, drained.seconds)
        }
        Measure::Steady => {
            let (cap, batch, most_seconds) = (20_000, 500, n);
            let plan = SteadyPlan { seconds: n, cap, batch, callers, at_least: 0, most_seconds };
            let ran = driver::steady(url, &plan, std::future::pending(), |_| {}).await?;
            done(ran.handled, ran.handled as f64 / ran.rate.max(1e-9))
        }
        Measure::Latency => {
            let plan = LatencyPlan { n, ..LatencyPlan::default() };
            Child { ms: driver::latency(url, &plan).await?.from_ack_ms, ..done(n, 0.0) }
        }
    })
}

/// How the driver of a system is started.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    program: PathBuf,
    words: Vec<String>,
}

impl Program {
    pub(crate) fn own(system: System) -> Result<Self> {
        Ok(Self { program: std::env::current_exe()?, words: vec!["peer".into(), system.as_str().into()] })
    }

    pub(super) fn node(node: PathBuf, driver: &std::path::Path) -> Self {
        Self { program: node, words: vec![driver.display().to_string()] }
    }

    pub(super) async fn measure(&self, url: &str, measure: Measure, count: u64) -> Result<Child> {
        self.measure_with(url, measure, count, measure.callers()).await
    }

    pub(crate) async fn measure_with(
        &self,
        url: &str,
        measure: Measure,
        count: u64,
        callers: usize,
    ) -> Result<Child> {
        let text = self.call(url, measure.as_str(), count, callers).await?;
        let line = text.lines().last().ok_or("the driver printed nothing")?;
        Ok(serde_json::from_str(line).map_err(|error| format!("the driver printed {line:?}: {error}"))?)
    }

    /// Creates the tables of a system in a new database.
    pub(super) async fn init(&self, url: &str) -> Result<()> {
        self.call(url, "init", 0, 2).await.map(drop)
    }

    async fn call(&self, url: &str, mode: &str, count: u64, callers: usize) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(&self.words).args([mode, &count.to_string(), &callers.to_string()]);
        command.env("DATABASE_URL", url).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        let name = self.words.last().cloned().unwrap_or_default();
        let output = output.map_err(|_| format!("{name} {mode} did not end within {LIMIT:?}"))??;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{name} {mode} failed: {}", said.trim()).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
