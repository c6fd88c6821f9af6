//! One tenant with very many jobs and a hundred tenants with ten each: the cost of fairness, and when the small tenants are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{FILL, Suite};
use crate::Result;
use crate::driver::{self, BulkPlan};
use crate::noop;

const SMALL_TENANTS: u64 = 100;
const SMALL_JOBS: u64 = 10;
const MAX_DURATION: Duration = Duration::from_secs(600);

struct Ran {
    rate: f64,
    small_done_at: u64,
}

impl Suite<'_> {
    pub(super) async fn fair(&mut self) -> Result<()> {
        self.table.progress("one tenant alone");
        self.figures.fair_single_tenant = Some(self.run_tenants(0).await?.rate);
        self.table.show(&self.figures);
        self.table.progress("one tenant and a hundred others");
        let ran = self.run_tenants(SMALL_TENANTS).await?;
        self.figures.fair = Some(ran.rate);
        self.figures.fair_small_done_at = Some(ran.small_done_at as f64);
        Ok(())
    }

    /// The jobs of the large tenant are enqueued first. Only the first runs are timed; all jobs are queued when the worker starts.
    async fn run_tenants(&self, small_tenants: u64) -> Result<Ran> {
        let url = self.server.fresh_database().await?;
        let queue = noop::warm_queue(&url, 2).await?;
        let large = queue.ensure_tenant("large", "large", 1).await?;
        driver::enqueue(&queue, Some(large), &BulkPlan { n: self.sizes.fair, ..FILL }).await?;
        for number in 1..=small_tenants {
            let slug = format!("small-{number}");
            let small = queue.ensure_tenant(&slug, &slug, 1).await?;
            let few = BulkPlan { n: SMALL_JOBS, callers: 1, batch: SMALL_JOBS };
            driver::enqueue(&queue, Some(small), &few).await?;
        }

        let handled = Arc::new(AtomicU64::new(0));
        let small_handled = Arc::new(AtomicU64::new(0));
        let small_done_at = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let worker = noop::worker(&queue, {
            let (handled, small_handled, small_done_at) =
                (handled.clone(), small_handled.clone(), small_done_at.clone());
            move |job| {
                let position = handled.fetch_add(1, Ordering::Relaxed) + 1;
                if job.tenant_id() != large {
                    small_handled.fetch_add(1, Ordering::Relaxed);
                    small_done_at.fetch_max(position, Ordering::Relaxed);
                }
            }
        });
        let worker = worker.start().await?;
        while handled.load(Ordering::Relaxed) < self.sizes.fair_timed {
            if began.elapsed() > MAX_DURATION {
                return Err("the jobs did not finish within ten minutes".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let rate = handled.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        noop::stop(worker).await?;
        if small_handled.load(Ordering::Relaxed) != small_tenants * SMALL_JOBS {
            return Err("the small tenants were not done within the timed runs".into());
        }
        Ok(Ran { rate, small_done_at: small_done_at.load(Ordering::Relaxed) })
    }
}
