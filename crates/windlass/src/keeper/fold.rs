//! Folds counter differences into totals.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

/// Rows per round: what two seconds of full load append.
const MAX: i32 = 20_000;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let moved = store::keeper::fold_tallies(database, MAX).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full: moved >= MAX, next: None })
}
