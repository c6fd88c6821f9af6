//! Makes partitions ahead of time, and drops those that are over and empty.

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const WEEKS_AHEAD: i32 = 2;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (made, dropped) = store::keeper::maintain_partitions(database, WEEKS_AHEAD).await?;
    Ok(Round { moved: (made + dropped).unsigned_abs().into(), is_full: false, next: None })
}
