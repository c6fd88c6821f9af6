//! Who does a duty first. A lease in a row, with an epoch that rises when it changes hands; never an advisory lock, which a
//! pooler would keep after its holder's death.
//!
//! It only spares the others the work. What makes a duty right is the guard of its own statement, so whoever does not
//! lead goes on looking, a moment later than the leader should have been done: a leader that died or froze is made good
//! for within that moment, without anybody having noticed.

use std::time::Duration;

use uuid::Uuid;

use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const LEASE: Duration = Duration::from_secs(5);
/// How much later than the leader everyone else looks.
const BEHIND: Duration = Duration::from_millis(300);

/// How old work must be before this holder does it.
pub(super) async fn patience(database: &Database, duty: &'static str, holder: Uuid) -> Result<Duration> {
    let leads = store::trigger::lead(database, duty, holder, LEASE).await?;
    Ok(if leads.is_some() { Duration::ZERO } else { BEHIND })
}
