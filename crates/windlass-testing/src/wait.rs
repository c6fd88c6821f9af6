//! Waits for a condition instead of a fixed time.

use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Polls until the condition holds, and panics with its description if it does not within a minute. The timeout only limits
/// failures; no test passes because time has passed.
pub async fn eventually(description: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {} s: {description}", LIMIT.as_secs());
        tokio::time::sleep(PAUSE).await;
    }
}
