//! Creates partitions ahead of time, divides them if many jobs are enqueued, and drops past empty ones.

use std::time::Duration;

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

/// Between the steps of a new partition, and before the next try after a lock for one was not available.
const STEP: Duration = Duration::from_secs(1);

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (moved, is_unfinished) = store::keeper::maintain_partitions(database).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full: false, next: is_unfinished.then_some(STEP) })
}
