//! The whole benchmark, phase by phase. Every phase has a fresh database and begins right after a checkpoint; nothing
//! is analysed or vacuumed by hand that a user would not have, and every figure comes from this run.

mod fair;
mod history;
mod pinned;
mod size;

use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::args::{Phase, SuiteOptions};
use crate::database::connect;
use crate::driver::{self, BulkPlan, LatencyPlan, SteadyRun};
use crate::figures::Figures;
use crate::percentile::{median, percentile};
use crate::process::{self, Ran};
use crate::raw;
use crate::server::Server;
use crate::table::Table;
use size::Sizes;

const FILL: BulkPlan = BulkPlan { n: 0, callers: 2, batch: 1000 };
/// No drain of these sizes takes longer on any machine worth measuring, nor its process much longer than it.
const DRAIN_SECONDS: u64 = 300;
const DRAIN_PROCESS_LIMIT: Duration = Duration::from_secs(DRAIN_SECONDS + 90);

pub(crate) async fn run(options: &SuiteOptions) -> Result<()> {
    let server = Server::start().await?;
    println!("{}", server.description().await?);
    let cores = std::thread::available_parallelism()?;
    println!("{cores} cores, payload {} bytes, {:?} sizes\n", crate::noop::PAYLOAD_BYTES, options.size);
    let mut suite = Suite {
        server: &server,
        sizes: Sizes::of(options.size),
        figures: Figures::default(),
        table: Table::new(),
    };
    for phase in Phase::ALL {
        if options.only.is_empty() || options.only.contains(&phase) {
            suite.run(phase).await?;
            suite.table.show(&suite.figures);
        }
    }
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
}

impl Suite<'_> {
    async fn run(&mut self, phase: Phase) -> Result<()> {
        self.table.progress(phase.as_str());
        match phase {
            Phase::Raw => self.raw().await,
            Phase::Enqueue => self.enqueue().await,
            Phase::Drain => self.drain().await,
            Phase::Steady => self.steady().await,
            Phase::Pinned => self.pinned().await,
            Phase::Fair => self.fair().await,
            Phase::History => self.history().await,
            Phase::Latency => self.latency().await,
            Phase::Wal => self.wal().await,
        }
    }

    async fn raw(&mut self) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let progress = |what: &str| self.table.progress(&format!("raw: {what}"));
        self.figures.raw = raw::measure(self.server, &url, &self.sizes.raw, progress).await?;
        Ok(())
    }

    async fn enqueue(&mut self) -> Result<()> {
        let mut rates = Vec::new();
        for _ in 0..self.sizes.rounds {
            let url = self.server.fresh_database().await?;
            let plan = BulkPlan { n: self.sizes.bulk, ..FILL };
            rates.push(plan.n as f64 / driver::bulk(&url, &plan).await?);
        }
        self.figures.enqueue_bulk = median(&rates);
        let url = self.server.fresh_database().await?;
        let plan = self.sizes.single;
        self.figures.enqueue_single_32 = Some(plan.n as f64 / driver::single(&url, &plan).await?);
        Ok(())
    }

    async fn drain(&mut self) -> Result<()> {
        let (mut rates, mut peak_rss_kb) = (Vec::new(), 0);
        for round in 1..=self.sizes.rounds {
            self.table.progress(&format!("drain, round {round} of {}", self.sizes.rounds));
            let url = self.server.fresh_database().await?;
            let ran = self.drain_filled(&url).await?;
            rates.push(rate_of(&ran.last_line)?);
            peak_rss_kb = ran.peak_rss_kb.max(peak_rss_kb);
            self.figures.extra.hot_claims = Some(hot_claims(&url).await?);
        }
        self.figures.drain = median(&rates);
        self.figures.worker_rss_mib = Some(peak_rss_kb as f64 / 1024.0);
        Ok(())
    }

    /// Fills the queue and has one worker process drain it, without a checkpoint in between: a queue is usually drained
    /// within minutes of being filled.
    async fn drain_filled(&self, url: &str) -> Result<Ran> {
        driver::bulk(url, &BulkPlan { n: self.sizes.drain, ..FILL }).await?;
        let (n, seconds) = (self.sizes.drain.to_string(), DRAIN_SECONDS.to_string());
        let words = ["drain", "--n", &n, "--seconds", &seconds].map(str::to_owned);
        process::run_driver(url, &words, DRAIN_PROCESS_LIMIT).await
    }

    async fn steady(&mut self) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let ran = self.run_steady("steady", &url, &self.sizes.steady).await?;
        let (first, last) = ran.first_and_last(self.sizes.window);
        self.figures.steady = Some(ran.rate);
        self.figures.steady_first10 = Some(first);
        self.figures.steady_last10 = Some(last);
        Ok(())
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
        // Further apart than a worker looks again by itself after its last job, so that it really sleeps.
        let plan = LatencyPlan { n: self.sizes.listen_off, apart_ms: 100..1100, listen: false };
        let samples = driver::latency(&url, &plan).await?;
        self.figures.extra.listen_off_max_ms = percentile(&samples.from_ack_ms, 1.0);
        Ok(())
    }

    /// All WAL from the first enqueue to the last end, heartbeats and counters included. The checkpoint before it and
    /// none within it means that images of whole pages, which follow a checkpoint, are as few as they can be.
    async fn wal(&mut self) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let before = self.server.wal_bytes().await?;
        let ran = self.drain_filled(&url).await?;
        let jobs = ran.last_line["n"].as_f64().ok_or("a drain without its n")?;
        self.figures.wal_bytes_per_job = Some((self.server.wal_bytes().await? - before) / jobs);
        Ok(())
    }
}

fn rate_of(drained: &Value) -> Result<f64> {
    let field =
        |name: &str| drained[name].as_f64().ok_or_else(|| format!("a drain without its {name}: {drained}"));
    if field("left")? > 0.0 {
        return Err(format!("the drain gave up: {drained}").into());
    }
    Ok(field("n")? / field("seconds")?)
}

/// The share of claims that touched no index.
async fn hot_claims(url: &str) -> Result<f64> {
    let client = connect(url).await?;
    // A server writes down its counters when it ends or is asked to; the worker's have ended.
    let query = "select coalesce(n_tup_hot_upd::float8 / nullif(n_tup_upd, 0), 0)
                   from pg_stat_user_tables where relid = 'windlass.live'::regclass";
    Ok(client.query_one(query, &[]).await?.get(0))
}
