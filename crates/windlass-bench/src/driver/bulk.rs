//! Enqueues many jobs, a batch per transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::Queue;

use crate::Result;
use crate::noop;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BulkPlan {
    pub(crate) n: u64,
    pub(crate) callers: usize,
    /// Jobs per transaction.
    pub(crate) batch: u64,
}

/// Returns the elapsed seconds.
pub(crate) async fn run(url: &str, plan: &BulkPlan) -> Result<f64> {
    let queue = noop::warm_queue(url, plan.callers).await?;
    enqueue(&queue, None, plan).await
}

/// The same for a tenant, on an existing connection.
pub(crate) async fn enqueue(queue: &Queue, tenant: Option<Uuid>, plan: &BulkPlan) -> Result<f64> {
    let began = Instant::now();
    let taken = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..plan.callers {
        let (queue, taken, plan) = (queue.clone(), taken.clone(), *plan);
        callers.spawn(async move { call(&queue, tenant, &taken, &plan).await });
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// The time includes building the jobs, as in an application.
async fn call(queue: &Queue, tenant: Option<Uuid>, taken: &AtomicU64, plan: &BulkPlan) -> Result<()> {
    let payload = noop::payload();
    loop {
        let first = taken.fetch_add(plan.batch, Ordering::Relaxed);
        if first >= plan.n {
            return Ok(());
        }
        let count = plan.batch.min(plan.n - first);
        let jobs: Vec<_> = (0..count).map(|_| noop::new_job(&payload, tenant)).collect();
        queue.enqueue_many(&jobs).await?;
    }
}
