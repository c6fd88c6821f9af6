//! Deletes finished jobs and events past their retention, and unused lanes, in batches, so that no transaction is long.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const MAX: i32 = 1000;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    store::keeper::summarize_times(database).await?;
    let jobs = store::keeper::prune(database, MAX).await?;
    let events = store::keeper::prune_events(database, MAX).await?;
    store::keeper::retire_lanes(database, MAX).await?;
    let moved = u64::from(jobs.unsigned_abs()) + u64::from(events.unsigned_abs());
    Ok(Round { moved, is_full: jobs >= MAX || events >= MAX, next: None })
}
