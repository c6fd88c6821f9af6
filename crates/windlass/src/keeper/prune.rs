//! Deletes finished jobs and events past their retention, and unused lanes, in batches, so that no transaction is long.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    store::keeper::summarize_times(database).await?;
    let (jobs, has_more_jobs) = store::keeper::prune(database).await?;
    let (events, has_more_events) = store::keeper::prune_events(database).await?;
    store::keeper::retire_lanes(database).await?;
    let moved = u64::from(jobs.unsigned_abs()) + u64::from(events.unsigned_abs());
    Ok(Round { moved, is_full: has_more_jobs || has_more_events, next: None })
}
