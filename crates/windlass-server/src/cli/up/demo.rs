//! The demo: two tenants, a worker, schedules, and a simulated application that emits events and enqueues jobs.

mod triggers;

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::{NewJob, Queue, Worker};

use super::handlers::{RecomputeTags, RecomputeZeroshot, SyncDropbox, TrainModels};
use crate::cli::exit::Failure;
use crate::config::Configuration;

/// A tenant, and the number of jobs it enqueues per round.
pub(super) struct DemoTenant {
    id: Uuid,
    burst: u16,
}

/// Often enough that something changes on the page, rarely enough that it can be read.
const EVERY: Duration = Duration::from_secs(5);

/// Creates the tenants that do not exist yet.
pub(super) async fn prepare(queue: &Queue) -> Result<Vec<DemoTenant>, Failure> {
    let acme = queue.ensure_tenant("acme", "Acme Pictures", 1).await?;
    let bcg = queue.ensure_tenant("bcg", "BCG Archive", 1).await?;
    Ok(vec![DemoTenant { id: acme, burst: 4 }, DemoTenant { id: bcg, burst: 1 }])
}

pub(super) async fn worker(queue: &Queue, configuration: &Configuration) -> Result<Worker, Failure> {
    let worker = Worker::builder(queue)
        .handler(SyncDropbox)
        .handler(RecomputeTags)
        .handler(RecomputeZeroshot)
        .handler(TrainModels)
        .concurrency(configuration.worker.concurrency)
        .grace(Duration::from_secs(configuration.worker.grace_seconds.min(8)))
        .metadata(json!({"role": "demo"}))
        .without_keeper()
        .start()
        .await?;
    Ok(worker)
}

/// Enqueues jobs and emits events until it is stopped.
pub(super) async fn produce(queue: Queue, tenants: Vec<DemoTenant>, stop: CancellationToken) {
    // Done here, so that it does not delay the start of the server.
    for tenant in &tenants {
        if let Err(error) = triggers::ensure(&queue, tenant.id).await {
            tracing::warn!(%error, "cannot create the triggers of the demo");
        }
    }
    let mut ticks = tokio::time::interval(EVERY);
    for turn in 0_u64.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        for tenant in &tenants {
            if let Err(error) = run_round(&queue, tenant, turn).await {
                tracing::warn!(%error, "cannot enqueue the jobs of the demo");
            }
        }
    }
}

async fn run_round(queue: &Queue, tenant: &DemoTenant, turn: u64) -> windlass::Result<()> {
    // All four events in the first round, so that there is something to see.
    for turn in if turn == 0 { 0..4 } else { turn + 3..turn + 4 } {
        triggers::emit(queue, tenant.id, turn).await?;
    }
    enqueue_jobs(queue, tenant).await
}

async fn enqueue_jobs(queue: &Queue, tenant: &DemoTenant) -> windlass::Result<()> {
    let providers = (0..tenant.burst).map(|number| {
        // The same providers in every round, so that a running sync is not started twice.
        let provider = Uuid::from_u128(tenant.id.as_u128() ^ u128::from(number));
        NewJob::new("sync-dropbox")
            .payload(&json!({"provider_id": provider, "path_prefix": "/"}))
            .dedupe_key(format!("sync:{provider}"))
            .subject("provider", provider.to_string())
            .tag("sync")
    });
    let jobs: Vec<NewJob> = providers.map(|job| job.tenant(tenant.id)).collect();
    for job in &jobs {
        queue.enqueue(job).await?;
    }
    // Blocked until the sync of this round has succeeded.
    let sync = NewJob::new("sync-dropbox").payload(&json!({"provider_id": Uuid::new_v4()})).tenant(tenant.id);
    let sync = queue.enqueue(&sync.priority(200)).await?;
    let keywords = rand::random_range(5..30_u16);
    let train = NewJob::new("train-keyword-models").payload(&json!({"keywords": keywords})).tenant(tenant.id);
    queue.enqueue(&train.depends_on(sync.id).tag("training")).await?;

    let later = NewJob::new("recompute-trained-tags").payload(&json!({"model": "siglip"})).tenant(tenant.id);
    queue.enqueue(&later.delay(Duration::from_secs(20)).priority(50)).await?;
    Ok(())
}
