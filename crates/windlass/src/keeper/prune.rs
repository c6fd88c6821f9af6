//! Deletes finished jobs and events past their retention, and lanes that nobody uses any more, a batch at a time, so that no transaction
//! is long.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const MOST: i32 = 1000;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    store::keeper::summarize_times(database).await?;
    let jobs = store::keeper::prune(database, MOST).await?;
    let events = store::keeper::prune_events(database, MOST).await?;
    store::keeper::retire_lanes(database, MOST).await?;
    let moved = u64::from(jobs.unsigned_abs()) + u64::from(events.unsigned_abs());
    Ok(Round { moved, is_full: jobs >= MOST || events >= MOST, next: None })
}
