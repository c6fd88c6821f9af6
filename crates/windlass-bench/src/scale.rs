//! How the throughput of one server grows with the worker processes and with the connections of enqueuers, what each step costs in
//! CPU time per job, and what its sessions wait for: locks, the write-ahead log, or neither. At the end, what settings of the
//! server change.

mod settings;
mod waits;
mod workers;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::cost::Rate;
use crate::database::connect;
use crate::driver::{self, BulkPlan};
use crate::noop;
use crate::peers::{Child, Measure, Program, System};
use crate::server::Server;
use crate::stolen::{Busy, Stolen};
use waits::Waits;

pub(crate) use workers::{WORKER, run_worker};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScalePlan {
    /// Jobs of a drain or a bulk enqueue; a tenth of them are enqueued singly.
    pub(crate) n: u64,
    pub(crate) workers: Vec<usize>,
    pub(crate) connections: Vec<usize>,
    pub(crate) has_settings: bool,
    pub(crate) json: Option<PathBuf>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Step {
    what: &'static str,
    /// Worker processes, connections, or the changed setting.
    of: String,
    #[serde(flatten)]
    rate: Rate,
    /// The share of the machine that was in use, from 0 to 1.
    busy: f64,
    wal_bytes_per_job: f64,
    limited_by: &'static str,
    /// The shares of the most frequent states of the active sessions.
    waits: Vec<(String, f64)>,
}

const SINGLE_CALLERS: usize = 32;

pub(crate) async fn run(plan: &ScalePlan) -> Result<()> {
    let server = Server::start().await?;
    let description = server.description().await?;
    let cores = std::thread::available_parallelism()?;
    println!("{description}\n{cores} cores, shared by the server and its clients\n");
    println!(
        "{:<8} {:>24} {:>9} {:>10} {:>10} {:>6} {:>6} {:>7}  limited by; states of active sessions",
        "", "of", "per s", "server us", "client us", "busy", "others", "WAL B"
    );
    let stolen = Stolen::watch();
    let mut steps = Vec::new();
    let bench = Bench { server: &server, n: plan.n };
    for &count in &plan.workers {
        steps.push(shown(bench.drain("drain", format!("{count} workers"), count, &[]).await?));
    }
    for measure in [Measure::Single, Measure::Bulk] {
        for &callers in &plan.connections {
            let of = format!("{callers} connections");
            steps.push(shown(bench.enqueue(measure, of, callers, &[]).await?));
        }
    }
    if plan.has_settings {
        for (name, changes) in settings::CHANGES {
            // A server may be built without a way to compress.
            if let Err(error) = bench.database(changes).await {
                println!("{name} is not measured: {error}");
                continue;
            }
            steps
                .push(shown(bench.enqueue(Measure::Single, name.to_owned(), SINGLE_CALLERS, changes).await?));
            steps.push(shown(bench.drain("drain", name.to_owned(), 1, changes).await?));
        }
    }
    println!("{stolen}");
    server.stop().await?;
    if let Some(file) = &plan.json {
        let all = json!({ "server": description, "cores": cores, "n": plan.n, "steps": steps });
        std::fs::write(file, format!("{}\n", serde_json::to_string_pretty(&all)?))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("written to {}", file.display());
    }
    Ok(())
}

struct Bench<'a> {
    server: &'a Server,
    n: u64,
}

impl Bench<'_> {
    async fn database(&self, changes: &[(&str, &str)]) -> Result<String> {
        let url = self.server.fresh_database().await?;
        settings::change(&connect(&url).await?, changes).await?;
        Ok(url)
    }

    /// Jobs that were enqueued in bulk, run by worker processes that start together.
    async fn drain(
        &self,
        what: &'static str,
        of: String,
        workers: usize,
        changes: &[(&str, &str)],
    ) -> Result<Step> {
        let url = self.database(changes).await?;
        let queue = noop::warm_queue(&url, 2).await?;
        driver::enqueue(&queue, None, &BulkPlan { n: self.n, callers: 2, batch: 1000 }).await?;
        self.server.settle_down().await?;
        let measured = async {
            let (seconds, cpu_seconds) = workers::drain(&url, workers, self.n).await?;
            Ok(Child { n: self.n, seconds, cpu_seconds, ms: Vec::new() })
        };
        self.step(what, of, &url, measured).await
    }

    async fn enqueue(
        &self,
        measure: Measure,
        of: String,
        callers: usize,
        changes: &[(&str, &str)],
    ) -> Result<Step> {
        let url = self.database(changes).await?;
        let n = if measure == Measure::Single { (self.n / 10).max(callers as u64) } else { self.n };
        let program = Program::own(System::Windlass)?;
        self.step(measure.as_str(), of, &url, program.measure_with(&url, measure, n, callers)).await
    }

    async fn step(
        &self,
        what: &'static str,
        of: String,
        url: &str,
        measured: impl Future<Output = Result<Child>>,
    ) -> Result<Step> {
        let waits = Waits::sample(connect(url).await?);
        let (busy, wal, meter) = (Busy::now(), self.server.wal_bytes().await?, self.server.meter().await?);
        let done = measured.await?;
        let cost = meter.stop(Some(done.cpu_seconds));
        let wal_bytes_per_job = (self.server.wal_bytes().await? - wal) / done.n.max(1) as f64;
        let busy = Busy::share_since(busy);
        let waits = waits.stop().await?;
        let rate = Rate::of(done.n, done.seconds, &cost);
        let limited_by = waits.limit(busy);
        Ok(Step { what, of, rate, busy, wal_bytes_per_job, limited_by, waits: waits.most() })
    }
}

/// Prints a step as soon as it is measured.
fn shown(step: Step) -> Step {
    let states: Vec<String> =
        step.waits.iter().map(|(state, share)| format!("{state} {:.0} %", share * 100.0)).collect();
    println!(
        "{:<8} {:>24} {:>9.0} {:>10.1} {:>10.1} {:>5.0}% {:>5.0}% {:>7.0}  {}; {}",
        step.what,
        step.of,
        step.rate.per_second,
        step.rate.server_us,
        step.rate.client_us,
        step.busy * 100.0,
        step.rate.others * 100.0,
        step.wal_bytes_per_job,
        step.limited_by,
        states.join(", ")
    );
    step
}
