//! Releases jobs whose dependencies ended: those that a settlement left over because too many waited, for which it rings, and
//! those that it could not see.

use std::time::Duration;

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

/// The most jobs of one batch.
const MOST: i32 = 500;
/// One tenant's many new waits must not keep another's from being looked at, nor take all of the database's time.
const SOON: Duration = Duration::from_millis(100);

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (moved, has_more) = store::keeper::unblock_all(database, MOST).await?;
    // Whatever moved may have left more behind it, and a round that finds nothing costs little.
    let next = has_more.then_some(SOON);
    Ok(Round { moved: moved.unsigned_abs().into(), is_full: moved > 0, next })
}
