//! Replaces large partitions whose jobs are past their retention, one step per round; `retire.sql` has the steps.

use std::time::Duration;

use super::Round;
use crate::error::Result;
use crate::store;
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (gone, wait) = store::keeper::retire(database).await?;
    let is_full = wait == Some(Duration::ZERO);
    Ok(Round { moved: gone.unsigned_abs(), is_full, next: wait })
}
