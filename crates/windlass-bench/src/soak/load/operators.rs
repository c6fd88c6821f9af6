//! Operators: they cancel, retry and delete jobs, pause queues, drain workers, set retention and place legal holds, at random.

use std::time::Duration;

use rand::Rng;
use serde_json::json;
use uuid::Uuid;
use windlass::job::{Canceled, State};
use windlass::retention::HoldOn;

use super::http::{Answer, Request, call};
use super::intent::Author;
use super::{CALL_LIMIT, Callers};
use crate::soak::ledger::Fact;

const PAUSE: Duration = Duration::from_millis(150);

pub(super) async fn act(callers: Callers, mut author: Author) {
    while !callers.is_stopped() {
        tokio::time::sleep(PAUSE).await;
        let _running = callers.site.gate.read().await;
        let tenant = author.tenants[author.random.random_range(0..3)];
        let jobs = callers.site.recent.some_of(tenant, 3, &mut author.random);
        let newest = callers.site.recent.newest_of(tenant, author.random.random_range(0..3));
        let (Some(job), Some(newest)) = (jobs.first().copied(), newest) else { continue };
        // Whatever is not acknowledged is not required, and not excluded either.
        let limited = async {
            match author.random.random_range(0..100) {
                0..25 => cancel(&callers, tenant, newest).await,
                25..45 => cancel_over_http(&callers, &mut author, tenant, newest).await,
                45..60 => retry(&callers, &mut author, tenant, job).await,
                60..70 => purge(&callers, tenant, jobs).await,
                70..75 => purge(&callers, tenant, vec![newest]).await,
                75..80 => pause_queue(&callers).await,
                80..85 => drain(&callers).await,
                85..92 => hold(&callers, tenant, job).await,
                _ => {
                    // Longer than the run: the checker expects to find canceled jobs.
                    let keep = Duration::from_secs(author.random.random_range(7200..9000));
                    let set = callers.queue.set_retention(tenant, None, State::Canceled, Some(keep), "soak");
                    set.await.ok()
                }
            }
        };
        let _ = tokio::time::timeout(CALL_LIMIT, limited).await;
    }
}

/// Nothing if it failed: the result is not used.
async fn cancel(callers: &Callers, tenant: Uuid, job: Uuid) -> Option<()> {
    callers.site.ledger.note(Fact::CancelSent { job });
    match callers.queue.cancel(tenant, job).await.ok()? {
        Canceled::Now => callers.site.ledger.note(Fact::Canceled { job, was_running: false }),
        Canceled::Requested => callers.site.ledger.note(Fact::Canceled { job, was_running: true }),
        _ => {}
    }
    Some(())
}

async fn cancel_over_http(callers: &Callers, author: &mut Author, tenant: Uuid, job: Uuid) -> Option<()> {
    callers.site.ledger.note(Fact::CancelSent { job });
    let path = format!("/api/v1/jobs/{job}/cancel");
    if let Answer::Done(body) = call(callers, author, Request::post(Some(tenant), &path)).await {
        match body["status"].as_str()? {
            "canceled" => callers.site.ledger.note(Fact::Canceled { job, was_running: false }),
            "running" => callers.site.ledger.note(Fact::Canceled { job, was_running: true }),
            _ => {}
        }
    }
    Some(())
}

async fn retry(callers: &Callers, author: &mut Author, tenant: Uuid, job: Uuid) -> Option<()> {
    callers.site.ledger.note(Fact::RetrySent { job });
    let path = format!("/api/v1/jobs/{job}/retry");
    if let Answer::Done(_) = call(callers, author, Request::post(Some(tenant), &path)).await {
        callers.site.ledger.note(Fact::Retried { job });
    }
    Some(())
}

async fn purge(callers: &Callers, tenant: Uuid, jobs: Vec<Uuid>) -> Option<()> {
    callers.site.ledger.note(Fact::PurgeSent { jobs: jobs.clone() });
    let purged = callers.queue.purge(tenant, &jobs).await.ok()?;
    // Otherwise some of them had been deleted before, or are under legal hold.
    if purged == jobs.len() as u64 {
        callers.site.ledger.note(Fact::Purged { jobs });
    }
    Some(())
}

async fn pause_queue(callers: &Callers) -> Option<()> {
    let paused = callers.queue.set_paused("default", true).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Whether the pause was acknowledged or not: a queue must not stay paused.
    resume_queue(callers).await;
    paused.ok()
}

async fn resume_queue(callers: &Callers) {
    while callers.queue.set_paused("default", false).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn drain(callers: &Callers) -> Option<()> {
    let client = callers.installation.cluster.client().await.ok()?;
    let query =
        "select worker_id from windlass.job_workers where stopped_at is null order by random() limit 1";
    let row = client.query_opt(query, &[]).await.ok()??;
    let worker: String = row.get(0);
    callers.queue.set_draining(&worker, true).await.ok()?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    while callers.queue.set_draining(&worker, false).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Some(())
}

async fn hold(callers: &Callers, tenant: Uuid, job: Uuid) -> Option<()> {
    let hold =
        callers.queue.hold(tenant, &HoldOn::Job(job), &json!("soak").to_string(), "soak").await.ok()?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    callers.queue.release(tenant, hold, "soak").await.ok()
}
