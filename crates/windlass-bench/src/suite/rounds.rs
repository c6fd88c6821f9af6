//! The figures that are compared with the raw limits, alternating with them: every round measures the limits, then windlass, each
//! in a new database, so that a slow phase of the machine affects both.

use super::{FILL, Suite, rate_of};
use crate::Result;
use crate::args::Phase;
use crate::driver::{self, BulkPlan};
use crate::raw;
use crate::repeated::Repeated;

#[derive(Default)]
struct Rates {
    raw: raw::Samples,
    bulk: Repeated,
    single: Repeated,
    drain: Repeated,
    peak_rss_kb: u64,
}

impl Suite<'_> {
    pub(super) async fn rounds(&mut self) -> Result<()> {
        if self.has_rounds {
            return Ok(());
        }
        self.has_rounds = true;
        let mut rates = Rates::default();
        for round in 1..=self.sizes.rounds {
            let name = format!("round {round} of {}", self.sizes.rounds);
            self.round(&name, &mut rates).await?;
        }
        if self.wants(Phase::Steady) {
            self.steady(&mut rates).await?;
        }
        self.figures.raw = rates.raw.figures();
        self.figures.enqueue_bulk = rates.bulk.figure();
        self.figures.enqueue_single_32 = rates.single.figure();
        self.figures.drain = rates.drain.figure();
        self.figures.worker_rss_mib = (rates.peak_rss_kb > 0).then_some(rates.peak_rss_kb as f64 / 1024.0);
        Ok(())
    }

    async fn round(&self, name: &str, rates: &mut Rates) -> Result<()> {
        if self.wants(Phase::Raw) {
            self.table.progress(&format!("{name}: raw limits"));
            let url = self.server.fresh_database().await?;
            raw::loops(self.server, &url, &self.sizes.raw, &mut rates.raw).await?;
            self.table.progress(&format!("{name}: raw single commits"));
            raw::singles(self.server, &url, &self.sizes.raw, &mut rates.raw).await?;
        }
        if self.wants(Phase::Enqueue) {
            self.table.progress(&format!("{name}: single enqueue"));
            let (url, plan) = (self.server.fresh_database().await?, self.sizes.single);
            rates.single.measure(async { Ok(plan.n as f64 / driver::single(&url, &plan).await?) }).await?;
            self.table.progress(&format!("{name}: bulk enqueue"));
            let url = self.server.fresh_database().await?;
            let plan = BulkPlan { n: self.sizes.bulk, ..FILL };
            rates.bulk.measure(async { Ok(plan.n as f64 / driver::bulk(&url, &plan).await?) }).await?;
        }
        if self.wants(Phase::Drain) {
            self.table.progress(&format!("{name}: drain"));
            let url = self.server.fresh_database().await?;
            let peak_rss_kb = &mut rates.peak_rss_kb;
            let drain = async {
                let ran = self.drain_filled(&url).await?;
                *peak_rss_kb = ran.peak_rss_kb.max(*peak_rss_kb);
                rate_of(&ran.last_line)
            };
            rates.drain.measure(drain).await?;
        }
        Ok(())
    }

    /// One long run, and the raw limits again after it.
    async fn steady(&mut self, rates: &mut Rates) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let ran = self.run_steady("steady", &url, &self.sizes.steady).await?;
        let (first, last) = ran.first_and_last(self.sizes.window);
        self.figures.steady = Some(ran.rate);
        self.figures.steady_first10 = Some(first);
        self.figures.steady_last10 = Some(last);
        if self.wants(Phase::Raw) {
            self.table.progress("raw limits again");
            let url = self.server.fresh_database().await?;
            raw::loops(self.server, &url, &self.sizes.raw, &mut rates.raw).await?;
        }
        Ok(())
    }
}
