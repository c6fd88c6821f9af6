//! Releases jobs whose dependencies ended unnoticed.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const MOST: i32 = 500;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let moved = store::keeper::unblock_all(database, MOST).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full: moved >= MOST, next: None })
}
