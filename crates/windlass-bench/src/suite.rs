//! The complete benchmark, phase by phase. Every phase has a new database and starts right after a checkpoint; nothing is analyzed
//! or vacuumed manually that a user would not have, and every figure comes from this run.

mod fair;
mod history;
mod pinned;
mod rounds;
mod size;

pub(crate) use history::fill;

use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::args::{Phase, SuiteOptions};
use crate::driver::{self, BulkPlan, LatencyPlan, SteadyRun};
use crate::figures::Figures;
use crate::percentile::percentile;
use crate::process::{self, Ran};
use crate::server::Server;
use crate::stolen::Stolen;
use crate::table::Table;
use size::Sizes;

const FILL: BulkPlan = BulkPlan { n: 0, callers: 2, batch: 1000 };
/// The timeouts of a drain and of its process.
const DRAIN_SECONDS: u64 = 300;
const DRAIN_PROCESS_LIMIT: Duration = Duration::from_secs(DRAIN_SECONDS + 90);

pub(crate) async fn run(options: &SuiteOptions) -> Result<()> {
    let server = Server::start().await?;
    println!("{}", server.description().await?);
    let cores = std::thread::available_parallelism()?;
    println!("{cores} cores, payload {} bytes, {:?} sizes\n", crate::noop::PAYLOAD_BYTES, options.size);
    let stolen = Stolen::watch();
    let mut suite = Suite {
        server: &server,
        sizes: Sizes::of(options.size),
        figures: Figures::default(),
        table: Table::new(),
        phases: options.only.clone(),
        has_rounds: false,
    };
    for phase in Phase::ALL {
        if suite.wants(phase) {
            suite.run(phase).await?;
            suite.table.show(&suite.figures);
        }
    }
    println!("\n{stolen}");
    if let Some(path) = &options.json {
        std::fs::write(path, format!("{}\n", serde_json::to_string_pretty(&suite.figures)?))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        println!("\nwritten to {}", path.display());
    }
    server.stop().await
}

struct Suite<'a> {
    server: &'a Server,
    sizes: Sizes,
    figures: Figures,
    table: Table,
    /// The selected phases; all if empty.
    phases: Vec<Phase>,
    has_rounds: bool,
}

impl Suite<'_> {
    fn wants(&self, phase: Phase) -> bool {
        self.phases.is_empty() || self.phases.contains(&phase)
    }

    async fn run(&mut self, phase: Phase) -> Result<()> {
        self.table.progress(phase.as_str());
        match phase {
            // These are compared with the raw limits, and alternate with them.
            Phase::Raw | Phase::Enqueue | Phase::Drain | Phase::Steady => self.rounds().await,
            Phase::Pinned => self.pinned().await,
            Phase::Fair => self.fair().await,
            Phase::History => self.history().await,
            Phase::Latency => self.latency().await,
            Phase::Wal => self.wal().await,
        }
    }

    /// Fills the queue and drains it with one worker process, without a checkpoint in between: a queue is usually drained within
    /// minutes.
    async fn drain_filled(&self, url: &str) -> Result<Ran> {
        driver::bulk(url, &BulkPlan { n: self.sizes.drain, ..FILL }).await?;
        let (n, seconds) = (self.sizes.drain.to_string(), DRAIN_SECONDS.to_string());
        let words = ["drain", "--n", &n, "--seconds", &seconds].map(str::to_owned);
        process::run_driver(url, &words, DRAIN_PROCESS_LIMIT).await
    }

    async fn run_steady(&self, name: &str, url: &str, plan: &driver::SteadyPlan) -> Result<SteadyRun> {
        driver::steady(url, plan, std::future::pending(), |one| {
            self.table.progress(&format!("{name}, second {}: {} jobs", one.second, one.done));
        })
        .await
    }

    async fn latency(&mut self) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let plan = LatencyPlan { n: self.sizes.latency, ..LatencyPlan::default() };
        let samples = driver::latency(&url, &plan).await?;
        self.figures.latency_p50_ms = percentile(&samples.from_ack_ms, 0.5);
        self.figures.latency_p99_ms = percentile(&samples.from_ack_ms, 0.99);
        self.table.show(&self.figures);
        self.table.progress("latency without LISTEN");
        // Further apart than the short polling after the last job, so that the worker really sleeps.
        let plan = LatencyPlan { n: self.sizes.listen_off, apart_ms: 100..1100, listen: false };
        let samples = driver::latency(&url, &plan).await?;
        self.figures.extra.listen_off_max_ms = percentile(&samples.from_ack_ms, 1.0);
        Ok(())
    }

    /// All WAL from the first enqueue to the last settle, including heartbeats and counters. With a checkpoint before it and none
    /// within it, the number of full-page images, which follow a checkpoint, is minimal.
    async fn wal(&mut self) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let before = self.server.wal_bytes().await?;
        let ran = self.drain_filled(&url).await?;
        let jobs = ran.last_line["n"].as_f64().ok_or("the drain did not report n")?;
        self.figures.wal_bytes_per_job = Some((self.server.wal_bytes().await? - before) / jobs);
        Ok(())
    }
}

fn rate_of(drained: &Value) -> Result<f64> {
    let field = |name: &str| {
        drained[name].as_f64().ok_or_else(|| format!("the drain did not report {name}: {drained}"))
    };
    if field("left")? > 0.0 {
        return Err(format!("the drain timed out: {drained}").into());
    }
    Ok(field("n")? / field("seconds")?)
}
