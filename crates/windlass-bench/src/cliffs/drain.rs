//! A drain by one worker in this process, and what it cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::{Queue, Worker};

use super::claims::Claims;
use crate::Result;
use crate::cost::Rate;
use crate::noop;
use crate::server::Server;

const LIMIT: Duration = Duration::from_secs(1800);

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Drained {
    pub(super) jobs: u64,
    #[serde(flatten)]
    pub(super) rate: Rate,
    pub(super) claim_p99_ms: f64,
    /// The number of the start, from 1, at which the last job of a small tenant ran.
    pub(super) small_done_at: Option<u64>,
}

pub(super) struct Counting {
    worker: Worker,
    handled: Arc<AtomicU64>,
    small: Arc<Small>,
}

/// The starts of the jobs of small tenants.
#[derive(Debug, Default)]
struct Small {
    handled: AtomicU64,
    done_at: AtomicU64,
}

impl Counting {
    /// `large`: the tenant that is not small, if there are small ones.
    pub(super) async fn start(queue: &Queue, large: Option<Uuid>) -> Result<Self> {
        let (handled, small) = (Arc::new(AtomicU64::new(0)), Arc::new(Small::default()));
        let (counter, of_small) = (handled.clone(), small.clone());
        let worker = noop::worker(queue, move |job| {
            let position = counter.fetch_add(1, Ordering::Relaxed) + 1;
            if large.is_some_and(|large| job.tenant_id() != large) {
                of_small.handled.fetch_add(1, Ordering::Relaxed);
                of_small.done_at.fetch_max(position, Ordering::Relaxed);
            }
        });
        Ok(Self { worker: worker.start().await?, handled, small })
    }

    /// The number of the start, from 1, at which the last of these jobs of small tenants ran.
    pub(super) fn small_done_at(&self, jobs: u64) -> Result<u64> {
        let handled = self.small.handled.load(Ordering::Relaxed);
        if handled != jobs {
            return Err(
                format!("only {handled} of {jobs} jobs of small tenants ran within the timed ones").into()
            );
        }
        Ok(self.small.done_at.load(Ordering::Relaxed))
    }

    /// Until this many jobs have started and all that are queued have ended. Returns the number of starts.
    pub(super) async fn until_empty(&self, jobs: u64, client: &Client) -> Result<u64> {
        let began = Instant::now();
        let handled = self.until(jobs).await?;
        let query = "select exists (select from windlass.line) or exists (select from windlass.live)";
        while self.worker.held_jobs() > 0 || client.query_one(query, &[]).await?.get(0) {
            if began.elapsed() > LIMIT {
                return Err("the jobs did not end in time".into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(handled)
    }

    /// Until this many jobs have started.
    pub(super) async fn until(&self, jobs: u64) -> Result<u64> {
        let began = Instant::now();
        loop {
            let handled = self.handled.load(Ordering::Relaxed);
            if handled >= jobs {
                return Ok(handled);
            }
            if began.elapsed() > LIMIT {
                return Err(format!("only {handled} of {jobs} jobs ran within {LIMIT:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) async fn stop(self) -> Result<()> {
        noop::stop(self.worker).await
    }
}

/// Drains a queue that is filled already.
pub(super) async fn drain(
    server: &Server,
    claims: &Claims,
    queue: &Queue,
    client: &Client,
    jobs: u64,
) -> Result<Drained> {
    server.settle_down().await?;
    claims.forget();
    let (began, meter) = (Instant::now(), server.meter().await?);
    let worker = Counting::start(queue, None).await?;
    let handled = worker.until_empty(jobs, client).await?;
    let seconds = began.elapsed().as_secs_f64();
    let rate = Rate::of(handled, seconds, &meter.stop(None));
    worker.stop().await?;
    let claim_p99_ms = claims.p99().unwrap_or_default();
    Ok(Drained { jobs: handled, rate, claim_p99_ms, small_done_at: None })
}
