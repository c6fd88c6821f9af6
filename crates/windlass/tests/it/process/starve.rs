//! Handlers that block all threads of the runtime.

use windlass_testing::{TestQueue, eventually};

use super::accounting::settle_accounts;
use super::fleet::Fleet;
use super::load::send_many;

/// Invariants 12 and 29, and F-16: handlers block every thread of the runtime for longer than the lease, on a machine with as
/// many busy loops as cores, and keep their jobs, because the lease has its own thread.
#[tokio::test(flavor = "multi_thread")]
async fn blocked_threads_do_not_lose_the_lease() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let busy = fleet.spawn(queue.url(), &[("--threads", "2"), ("--concurrency", "4")]).await;
    let acked = send_many(&queue, "spin", 5_000, 2).await;
    eventually("both threads are blocked", async || acked.iter().all(|job| fleet.has_started(*job))).await;
    // It reaps, and has no jobs of its own.
    let reaper = fleet.spawn(queue.url(), &[]).await;
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    for worker in [busy, reaper] {
        worker.finish().await;
    }
    assert_eq!((books.lost, books.attempts, books.overlaps), (0, 2, 0), "{books:?}");
}
