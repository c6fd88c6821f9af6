//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Looks until the condition holds, and panics with its description where it does not within a minute. The limit
/// only bounds a failure; nothing passes because time has passed.
pub async fn eventually(description: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {} s in vain: {description}", LIMIT.as_secs());
        tokio::time::sleep(PAUSE).await;
    }
}
