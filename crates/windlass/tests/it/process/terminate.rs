//! Connections that are closed by the server, any of them, at any moment.

use std::time::{Duration, Instant};

use windlass_testing::TestQueue;

use super::accounting::{make_effect_table, number, settle_accounts};
use super::fleet::Fleet;
use super::load::{Enqueuers, job};

/// Invariants 9 to 11, 15, 16 and 18: two of our backends die every 75 ms, including LISTEN and heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_lose_and_duplicate_nothing() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    make_effect_table(&client).await;
    let workers = [fleet.spawn(queue.url(), &[]).await, fleet.spawn(queue.url(), &[]).await];
    let enqueuers = Enqueuers::start(&queue, 4, |number| match number % 10 {
        0 => job("effect", 5),
        _ => job("work", 5),
    });
    let cut = "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity
                where datname = current_database() and application_name = 'windlass' order by random() limit 2) a";
    let (until, mut cuts) = (Instant::now() + Duration::from_secs(4), 0);
    let mut ticks = tokio::time::interval(Duration::from_millis(75));
    while Instant::now() < until {
        ticks.tick().await;
        cuts += number(&client, cut).await;
    }
    let (acked, sent) = enqueuers.finish().await;
    assert!(cuts > 20 && acked.len() > 50, "{cuts} closed connections, {} jobs", acked.len());
    let books = settle_accounts(&client, &fleet, &acked, &sent).await;
    for worker in workers {
        worker.finish().await;
    }
    assert_eq!(books.overlaps, 0, "{books:?}");
}
