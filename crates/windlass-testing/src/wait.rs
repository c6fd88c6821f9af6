//! Waits for a condition instead of a fixed time.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(60);
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// Polls until the condition holds, and panics with its description if it does not within a minute. The timeout only limits
/// failures; no test passes because time has passed.
///
/// The pauses are a tenth of the time that has passed: a long wait ends hardly later, and its queries do not take the processor from
/// what it waits for. Reading a job takes 4 ms, most of it to plan the view.
pub async fn eventually(description: &str, condition: impl AsyncFnMut() -> bool) {
    assert!(holds_in_time(condition).await, "not within {} s: {description}", LIMIT.as_secs());
}

/// Like [`eventually`], for callers that can say more about a failure: whether the condition held within the minute.
pub async fn holds_in_time(mut condition: impl AsyncFnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition().await {
        let waited = started.elapsed();
        if waited >= LIMIT {
            return false;
        }
        tokio::time::sleep((waited / 10).clamp(PAUSES.0, PAUSES.1)).await;
    }
    true
}

/// Waits until another session of this client's database waits for a lock.
pub async fn until_a_session_waits(client: &Client) {
    eventually("a session waits for a lock", async || waiting_for_locks(client).await > 0).await;
}

/// Waits until this task has ended or a session waits for a lock. For a task that waits with a timeout, or whose guard a mutant removed.
pub async fn until_waits_or_ends<T>(client: &Client, task: &JoinHandle<T>) {
    let what = "the task ends or waits for a lock";
    eventually(what, async || task.is_finished() || waiting_for_locks(client).await > 0).await;
}

/// The number of sessions of this client's database that wait for a lock. Those of autovacuum do not count: no test starts them.
pub async fn waiting_for_locks(client: &Client) -> i64 {
    let waits = "select count(*) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and backend_type = 'client backend'";
    let row = client.query_one(waits, &[]).await;
    row.unwrap_or_else(|error| panic!("cannot read the waiting sessions: {error:?}")).get(0)
}
