//! Chains the audit rows that were committed since the last round.

use super::Round;
use crate::error::Result;
use crate::store::audit::{SEALED_AT_ONCE, seal};
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let moved = seal(database).await?;
    Ok(Round { moved, is_full: moved >= u64::from(SEALED_AT_ONCE.unsigned_abs()), next: None })
}
