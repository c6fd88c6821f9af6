//! Folds counter differences into totals.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (moved, is_full) = store::keeper::fold_tallies(database).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full, next: None })
}
