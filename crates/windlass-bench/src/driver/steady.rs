//! Enqueues and runs jobs at the same time, with a limit on the queued jobs so that the two stay in balance.
//!
//! How it stops: when its time is over or `stop` resolves, the producers end after their batch, the worker finishes and settles its
//! jobs, and the remaining jobs in the queue are counted.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::Queue;

use crate::Result;
use crate::database;
use crate::noop;
use crate::process;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SteadyPlan {
    pub(crate) seconds: u64,
    /// The maximum number of jobs that are enqueued and not yet started.
    pub(crate) cap: u64,
    /// Jobs per enqueueing transaction.
    pub(crate) batch: u64,
    pub(crate) callers: usize,
    /// Continues after `seconds` until this many jobs have run, but never after `most_seconds`.
    pub(crate) at_least: u64,
    pub(crate) most_seconds: u64,
}

/// The share of the jobs that belong to a tenant with its own retention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kept {
    pub(crate) tenant: Uuid,
    pub(crate) percent: u64,
}

/// One second of the run.
pub(crate) struct Second {
    pub(crate) second: u64,
    /// Handler starts within this second.
    pub(crate) done: u64,
    pub(crate) rss_kb: u64,
}

pub(crate) struct SteadyRun {
    /// Handler starts.
    pub(crate) handled: u64,
    pub(crate) enqueued: u64,
    /// Jobs not yet durably finished when everything had stopped.
    pub(crate) outstanding: u64,
    /// Handler starts per second over the time in which jobs were produced, and in each second of it.
    pub(crate) rate: f64,
    pub(crate) each_second: Vec<u64>,
}

impl SteadyRun {
    /// Handler starts per second in the first and in the last `window` seconds.
    pub(crate) fn first_and_last(&self, window: usize) -> (f64, f64) {
        let window = window.min(self.each_second.len()).max(1);
        let mean = |counts: &[u64]| counts.iter().sum::<u64>() as f64 / window as f64;
        let last_from = self.each_second.len().saturating_sub(window);
        (mean(&self.each_second[..window.min(self.each_second.len())]), mean(&self.each_second[last_from..]))
    }
}

pub(crate) async fn run(
    url: &str,
    plan: &SteadyPlan,
    stop: impl Future<Output = ()>,
    each: impl FnMut(&Second),
) -> Result<SteadyRun> {
    run_with(url, plan, None, stop, each).await
}

pub(crate) async fn run_with(
    url: &str,
    plan: &SteadyPlan,
    kept: Option<Kept>,
    stop: impl Future<Output = ()>,
    mut each: impl FnMut(&Second),
) -> Result<SteadyRun> {
    let queue = noop::warm_queue(url, plan.callers).await?;
    let (worker, handled) = noop::counting_worker(&queue).await?;
    let flow = Arc::new(Flow { handled, ..Flow::default() });
    let mut producers = JoinSet::new();
    for _ in 0..plan.callers {
        let (queue, flow, plan) = (queue.clone(), flow.clone(), *plan);
        producers.spawn(async move { produce(&queue, &flow, &plan, kept).await });
    }

    tokio::pin!(stop);
    let began = Instant::now();
    let mut before = 0;
    let mut each_second = Vec::new();
    loop {
        let second = each_second.len() as u64 + 1;
        let due = began + Duration::from_secs(second);
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = &mut stop => break,
            // Until they are stopped, producers end only with an error.
            Some(ended) = producers.join_next() => ended??,
        }
        let now = flow.handled.load(Ordering::Relaxed);
        let one = Second { second, done: now - before, rss_kb: process::own_rss_kb() };
        before = now;
        each(&one);
        each_second.push(one.done);
        if (second >= plan.seconds && now >= plan.at_least) || second >= plan.most_seconds {
            break;
        }
    }
    let rate = flow.handled.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();

    flow.is_stopping.store(true, Ordering::Relaxed);
    while let Some(ended) = producers.join_next().await {
        ended??;
    }
    noop::stop(worker).await?;
    let outstanding = database::unfinished(&database::connect(url).await?).await?;
    let handled = flow.handled.load(Ordering::Relaxed);
    Ok(SteadyRun { handled, enqueued: flow.enqueued.load(Ordering::Relaxed), outstanding, rate, each_second })
}

/// The state shared by the producers and the worker.
#[derive(Default)]
struct Flow {
    handled: Arc<AtomicU64>,
    /// Enqueued, or reserved by a producer.
    promised: AtomicU64,
    enqueued: AtomicU64,
    is_stopping: AtomicBool,
}

async fn produce(queue: &Queue, flow: &Flow, plan: &SteadyPlan, kept: Option<Kept>) -> Result<()> {
    let payload = noop::payload();
    while !flow.is_stopping.load(Ordering::Relaxed) {
        let promised = flow.promised.fetch_add(plan.batch, Ordering::Relaxed) + plan.batch;
        let waiting = promised.saturating_sub(flow.handled.load(Ordering::Relaxed));
        // A cap smaller than a batch still lets one batch through at a time.
        if waiting > plan.cap.max(plan.batch) {
            flow.promised.fetch_sub(plan.batch, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let of_tenant = kept.map_or(0, |kept| plan.batch * kept.percent / 100);
        let tenant = |place| if place < of_tenant { kept.map(|kept| kept.tenant) } else { None };
        let jobs: Vec<_> = (0..plan.batch).map(|place| noop::new_job(&payload, tenant(place))).collect();
        queue.enqueue_many(&jobs).await?;
        flow.enqueued.fetch_add(plan.batch, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SteadyRun;

    #[test]
    fn the_first_and_last_seconds_are_means_and_may_overlap() {
        let run = |each_second: &[u64]| SteadyRun {
            handled: 0,
            enqueued: 0,
            outstanding: 0,
            rate: 0.0,
            each_second: each_second.to_vec(),
        };
        assert_eq!(run(&[10, 20, 30, 40]).first_and_last(2), (15.0, 35.0));
        assert_eq!(run(&[10, 20]).first_and_last(10), (15.0, 15.0));
        assert_eq!(run(&[]).first_and_last(10), (0.0, 0.0));
    }
}
