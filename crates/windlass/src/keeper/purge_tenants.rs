//! Deletes what is left of tenants that are being deleted, a batch at a time.

use super::Round;
use crate::error::Result;
use crate::queue::Queue;

pub(super) async fn run_once(queue: &Queue) -> Result<Round> {
    let purged = queue.purge_deleted_tenants().await?;
    Ok(Round { moved: purged.unwrap_or(0), is_full: purged.is_some(), next: None })
}
