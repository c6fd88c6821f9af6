//! Chains the audit rows that were committed since the last round.

use super::Round;
use crate::error::Result;
use crate::store::audit::seal;
use crate::store::database::Database;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let (moved, is_full) = seal(database).await?;
    Ok(Round { moved: moved.unsigned_abs().into(), is_full, next: None })
}
