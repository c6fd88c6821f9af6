//! Unblocks jobs whose dependencies have ended: those that a settlement left because too many waited, for which it
//! sends a notification, and those that it could not see.

use std::time::Duration;

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

/// Many new dependencies of one tenant must not delay those of another, nor use all of the database's time.
const SOON: Duration = Duration::from_millis(100);

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (moved, has_more) = store::keeper::unblock_all(database).await?;
    // Unblocked jobs may lead to more, and a round that finds nothing costs little.
    let next = has_more.then_some(SOON);
    Ok(Round { moved: moved.unsigned_abs().into(), is_full: moved > 0, next })
}
