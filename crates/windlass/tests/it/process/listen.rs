//! Notifications: lost, restored, and not used.

use std::sync::atomic::Ordering;

use windlass_testing::{TestQueue, eventually};

use super::accounting::{number, settle_accounts};
use super::cut::{Fault, Proxy};
use super::fleet::Fleet;
use super::load::{job, send, send_many};

const LISTENERS: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and query ilike 'listen windlass%'";

/// Invariant 29 and F-32: jobs are found while the listener is disconnected, and it reconnects.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_listener_reconnects_and_delays_no_job() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let worker = fleet.spawn(queue.url(), &[]).await;
    eventually("it listens", async || number(&client, LISTENERS).await == 1).await;
    let cut = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
                where datname = current_database() and query ilike 'listen windlass%'";
    assert_eq!(number(&client, cut).await, 1);
    let missed = send(&queue, job("work", 0)).await;
    eventually("it is found anyway", async || fleet.has_started(missed)).await;
    eventually("it listens again", async || number(&client, LISTENERS).await == 1).await;
    let notified = send(&queue, job("work", 0)).await;
    let acked = [missed, notified];
    settle_accounts(&client, &fleet, &acked, &acked).await;
    worker.finish().await;
}

/// F-32: a listener whose connection hangs without ending notices it at its next check, whose response never arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_on_a_hanging_connection_reconnects() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let proxy = Proxy::start(queue.url(), Fault::Silence, "notify windlass_", 1).await;
    let worker = fleet.spawn(&proxy.url, &[]).await;
    eventually("it listens", async || number(&client, LISTENERS).await == 1).await;
    eventually("its check gets no response", async || proxy.left.load(Ordering::SeqCst) == 0).await;
    // The last statement of the hanging session is the check.
    eventually("it listens again", async || number(&client, LISTENERS).await == 1).await;
    worker.finish().await;
}

/// Invariant 29: polling alone is enough, and then no worker requests notifications.
#[tokio::test(flavor = "multi_thread")]
async fn polling_alone_finds_every_job() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let worker = fleet.spawn(queue.url(), &[("--listen", "false")]).await;
    let mut acked = send_many(&queue, "work", 0, 50).await;
    acked.push(send(&queue, job("work", 0).delay(std::time::Duration::from_millis(300))).await);
    acked
        .push(send(&queue, windlass::NewJob::new("work").payload(&serde_json::json!({"failures": 2}))).await);
    settle_accounts(&client, &fleet, &acked, &acked).await;
    assert_eq!(number(&client, LISTENERS).await, 0);
    assert_eq!(number(&client, "select count(*) from windlass.waiting").await, 0);
    worker.finish().await;
}
