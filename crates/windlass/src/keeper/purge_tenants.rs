//! Deletes what is left of tenants that are being deleted, a batch at a time.

use std::time::Duration;

use super::Round;
use crate::error::Result;
use crate::queue::Queue;

pub(super) async fn run_once(queue: &Queue) -> Result<Round> {
    let purged = queue.purge_deleted_tenants().await?;
    // A tenant without jobs may still wait for the transactions that could bring one.
    let next = purged.map(|_| Duration::from_millis(200));
    Ok(Round { moved: purged.unwrap_or(0), is_full: purged.is_some_and(|purged| purged > 0), next })
}
