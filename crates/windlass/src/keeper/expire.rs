//! Fails jobs that waited past their deadline.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (moved, is_full) = store::keeper::expire(database).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full, next: None })
}
