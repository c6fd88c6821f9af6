//! Deletes finished jobs past their retention, a batch at a time, so that no transaction is long.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const MOST: i32 = 1000;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let moved = store::keeper::prune(database, MOST).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full: moved >= MOST, next: None })
}
