//! One job at a time on an idle queue: from the call of enqueue, and from its acknowledged commit, to the start of the handler.

use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use windlass::{Queue, Settings};

use crate::Result;
use crate::noop;

/// The timeout for the start of a job.
const START_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LatencyPlan {
    pub(crate) n: u64,
    /// Milliseconds between the start of a job and the enqueue of the next.
    pub(crate) apart_ms: Range<u64>,
    pub(crate) listen: bool,
}

impl Default for LatencyPlan {
    fn default() -> Self {
        Self { n: 200, apart_ms: 5..55, listen: true }
    }
}

pub(crate) struct Samples {
    pub(crate) from_call_ms: Vec<f64>,
    /// Zero if the handler started before the acknowledgement was read.
    pub(crate) from_ack_ms: Vec<f64>,
}

pub(crate) async fn run(url: &str, plan: &LatencyPlan) -> Result<Samples> {
    let queue = if plan.listen {
        noop::warm_queue(url, 2).await?
    } else {
        Queue::connect(Settings::new(url)?.without_listen()).await?
    };
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = noop::worker(&queue, move |_| {
        // The receiver is dropped only after the worker has stopped.
        let _ = started.send(Instant::now());
    });
    let worker = worker.start().await?;
    let payload = noop::payload();

    // The first jobs include the cost of opening the lane and preparing statements, once per worker.
    for _ in 0..3 {
        queue.enqueue(&noop::new_job(&payload, None)).await?;
        tokio::time::timeout(START_TIMEOUT, starts.recv()).await?;
    }

    let mut samples = Samples { from_call_ms: Vec::new(), from_ack_ms: Vec::new() };
    for _ in 0..plan.n {
        tokio::time::sleep(Duration::from_millis(rand::random_range(plan.apart_ms.clone()))).await;
        let job = noop::new_job(&payload, None);
        let called = Instant::now();
        queue.enqueue(&job).await?;
        let acknowledged = Instant::now();
        let start = tokio::time::timeout(START_TIMEOUT, starts.recv())
            .await
            .map_err(|_| "a job did not start within 30 s")?
            .ok_or("the worker stopped unexpectedly")?;
        samples.from_call_ms.push(milliseconds(start - called));
        samples.from_ack_ms.push(milliseconds(start.saturating_duration_since(acknowledged)));
    }
    noop::stop(worker).await?;
    Ok(samples)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
