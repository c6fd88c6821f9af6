//! Runs the queued jobs until the database has no unfinished ones.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::Result;
use crate::database;
use crate::noop;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DrainPlan {
    pub(crate) n: u64,
    /// The timeout.
    pub(crate) seconds: u64,
}

pub(crate) struct Drained {
    pub(crate) n: u64,
    pub(crate) seconds: f64,
    pub(crate) left: u64,
}

/// The time includes the start and the registration of the worker, and ends when the database has confirmed.
pub(crate) async fn run(url: &str, plan: &DrainPlan) -> Result<Drained> {
    let queue = noop::warm_queue(url, 1).await?;
    let client = database::connect(url).await?;
    let n = database::queued(&client).await?;
    if n < plan.n {
        return Err(format!("{n} jobs are queued, not {}; run `driver bulk` first", plan.n).into());
    }

    let began = Instant::now();
    let give_up = began + Duration::from_secs(plan.seconds);
    let (worker, handled) = noop::counting_worker(&queue).await?;
    let is_over = || Instant::now() >= give_up;
    // The database is queried only after this worker has run and settled everything: a query on a table full of dead rows is
    // expensive.
    while (handled.load(Ordering::Relaxed) < n || worker.held_jobs() > 0) && !is_over() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while database_has_some(&client).await? && !is_over() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seconds = began.elapsed().as_secs_f64();

    noop::stop(worker).await?;
    Ok(Drained { n, seconds, left: database::unfinished(&client).await? })
}

async fn database_has_some(client: &Client) -> Result<bool> {
    let row = client
        .query_one(
            "select exists (select from windlass.line) or exists (select from windlass.live) or exists (select from windlass.deferred)
                 or exists (select from windlass.blocked)",
            &[],
        )
        .await?;
    Ok(row.get(0))
}
