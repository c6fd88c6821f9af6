//! The rounds: every measurement in a new database, right after a checkpoint and with no autovacuum running.

use std::collections::BTreeMap;
use std::time::Instant;

use super::PeersPlan;
use super::child::Child;
use super::figures::{Figures, Latency};
use super::install::Installed;
use super::system::{Measure, System};
use crate::Result;
use crate::cost::{Meter, Rate};
use crate::database::connect;
use crate::percentile::percentile;
use crate::raw::{self, RawPlan};
use crate::server::Server;

const RAW: &str = "raw";
/// Single commits on one connection, for the time of a flush.
const COMMITS: usize = 200;

pub(super) struct Rounds<'a> {
    server: &'a Server,
    plan: &'a PeersPlan,
    rates: BTreeMap<(&'static str, Measure), Vec<Rate>>,
    /// Of all rounds together.
    latencies: BTreeMap<System, Vec<f64>>,
    commits_ms: Vec<f64>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(server: &'a Server, plan: &'a PeersPlan) -> Self {
        let (rates, latencies) = (BTreeMap::new(), BTreeMap::new());
        Self { server, plan, rates, latencies, commits_ms: Vec::new() }
    }

    pub(super) async fn round(&mut self, number: u64, systems: &[Installed]) -> Result<()> {
        self.raw().await?;
        for measure in [Measure::Drain, Measure::Single, Measure::Steady, Measure::Latency] {
            let is_bulk = measure == Measure::Drain && self.plan.measures(Measure::Bulk);
            if !self.plan.measures(measure) && !is_bulk {
                continue;
            }
            for installed in systems.iter().filter(|installed| installed.system.has(measure)) {
                eprintln!(
                    "round {number} of {}: {} {}",
                    self.plan.rounds,
                    installed.system.as_str(),
                    measure.as_str()
                );
                self.measure(installed, measure).await.map_err(|error| {
                    format!("{} {}: {error}", installed.system.as_str(), measure.as_str())
                })?;
            }
        }
        Ok(())
    }

    async fn measure(&mut self, installed: &Installed, measure: Measure) -> Result<()> {
        let url = self.server.empty_database().await?;
        installed.init(&url).await?;
        let plan = self.plan;
        match measure {
            // A drain follows a bulk enqueue without a checkpoint, as a queue is usually drained within minutes.
            Measure::Bulk | Measure::Drain => {
                self.timed(installed, &url, Measure::Bulk, plan.n).await?;
                if plan.measures(Measure::Drain) {
                    self.timed_at_once(installed, &url, Measure::Drain, plan.n).await?;
                }
            }
            Measure::Single => drop(self.timed(installed, &url, measure, plan.singles()).await?),
            Measure::Steady => drop(self.timed(installed, &url, measure, plan.seconds).await?),
            Measure::Latency => {
                let child = self.timed(installed, &url, measure, plan.latencies()).await?;
                self.latencies.entry(installed.system).or_default().extend(child.ms);
            }
        }
        Ok(())
    }

    async fn timed(
        &mut self,
        installed: &Installed,
        url: &str,
        measure: Measure,
        count: u64,
    ) -> Result<Child> {
        self.server.settle_down().await?;
        self.timed_at_once(installed, url, measure, count).await
    }

    async fn timed_at_once(
        &mut self,
        installed: &Installed,
        url: &str,
        measure: Measure,
        count: u64,
    ) -> Result<Child> {
        let meter = self.server.meter().await?;
        let child = installed.program.measure(url, measure, count).await?;
        let cost = meter.stop(Some(child.cpu_seconds));
        if measure != Measure::Latency {
            self.add(installed.system.as_str(), measure, Rate::of(child.n, child.seconds, &cost));
        }
        Ok(child)
    }

    fn add(&mut self, name: &'static str, measure: Measure, rate: Rate) {
        self.rates.entry((name, measure)).or_default().push(rate);
    }

    /// The raw limits of the server, and the time of a commit.
    async fn raw(&mut self) -> Result<()> {
        let (is_bulk, is_single) = (self.plan.measures(Measure::Bulk), self.plan.measures(Measure::Single));
        if !is_bulk && !is_single && !self.plan.measures(Measure::Latency) {
            return Ok(());
        }
        let url = self.server.fresh_database().await?;
        let raw_plan =
            RawPlan { rows: i32::try_from(self.plan.n)?.max(2), single_commits: self.plan.singles() };
        raw::prepare(self.server, &url, &raw_plan).await?;
        if is_bulk {
            self.server.settle_down().await?;
            let meter = self.server.meter().await?;
            let rate = raw::bulk_insert(self.server, &url, &raw_plan).await?;
            self.add_raw(Measure::Bulk, self.plan.n, rate, meter);
        }
        if is_single {
            self.server.settle_down().await?;
            let meter = self.server.meter().await?;
            let rate = raw::single_inserts(&url, &raw_plan).await?;
            self.add_raw(Measure::Single, self.plan.singles(), rate, meter);
        }
        let client = connect(&url).await?;
        client.batch_execute("create table raw.one (at timestamptz)").await?;
        let insert = client.prepare("insert into raw.one values (clock_timestamp())").await?;
        for _ in 0..COMMITS {
            let began = Instant::now();
            client.execute(&insert, &[]).await?;
            self.commits_ms.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(())
    }

    fn add_raw(&mut self, measure: Measure, n: u64, per_second: f64, meter: Meter) {
        let cost = meter.stop(None);
        self.add(RAW, measure, Rate::of(n, n as f64 / per_second.max(1e-9), &cost));
    }

    /// The figures of all rounds until now.
    pub(super) fn sum(&self, figures: &mut Figures) {
        figures.rounds += 1;
        for ((name, measure), rounds) in &self.rates {
            if let Some(rate) = Rate::of_rounds(rounds) {
                figures.rates.entry(measure.as_str()).or_default().insert(name, rate);
            }
        }
        for (system, ms) in &self.latencies {
            let [p50_ms, p99_ms] = [0.5, 0.99].map(|share| percentile(ms, share).unwrap_or_default());
            figures.latency.insert(system.as_str(), Latency { p50_ms, p99_ms, jobs: ms.len() });
        }
        figures.commit_p50_ms = percentile(&self.commits_ms, 0.5);
        figures.judge();
    }
}
