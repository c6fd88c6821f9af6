//! Puts deferred jobs in line when their time has come, and knows when the next one's will.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const MOST: i32 = 1000;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (promoted, is_full, next) = store::keeper::promote(database, MOST).await?;
    Ok(Round { moved: promoted.unsigned_abs().into(), is_full, next })
}
