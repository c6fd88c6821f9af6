//! Enqueues jobs one by one, each in its own transaction, by many callers with a connection each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::Result;
use crate::noop;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SinglePlan {
    pub(crate) n: u64,
    pub(crate) callers: usize,
}

/// Returns the elapsed seconds.
pub(crate) async fn run(url: &str, plan: &SinglePlan) -> Result<f64> {
    let queue = noop::warm_queue(url, plan.callers).await?;
    let began = Instant::now();
    let taken = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..plan.callers {
        let (queue, taken, n) = (queue.clone(), taken.clone(), plan.n);
        callers.spawn(async move {
            let payload = noop::payload();
            while taken.fetch_add(1, Ordering::Relaxed) < n {
                queue.enqueue(&noop::new_job(&payload, None)).await?;
            }
            Ok::<(), windlass::Error>(())
        });
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    Ok(began.elapsed().as_secs_f64())
}
