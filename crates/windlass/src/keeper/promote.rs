//! Queues deferred jobs when they are due, and returns when the next one is.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (promoted, is_full, next) = store::keeper::promote(database).await?;
    Ok(Round { moved: promoted.unsigned_abs().into(), is_full, next })
}
