//! Determines who performs a duty first. A lease in a row, with an epoch that increases when the leader changes; never
//! an advisory lock, which a pooler would keep after its holder's death.
//!
//! This only avoids duplicate work. The correctness of a duty depends on the guard of its own statement, so a
//! keeper that does not lead continues to check, shortly after the leader should have finished: the work of a leader
//! that crashed or was suspended is done after that delay, without detecting its failure.

use std::time::Duration;

use uuid::Uuid;

use crate::error::Result;
use crate::store;
use crate::store::database::Database;

const LEASE: Duration = Duration::from_secs(5);
/// How much later than the leader all others check.
const BEHIND: Duration = Duration::from_millis(300);
/// The longest time for which a holder can lead a duty in advance, half of the longest lease that the database accepts: a duty must not
/// wait longer for a leader that is gone.
pub(super) const MAX_LEAD: Duration = Duration::from_secs(300);

/// Returns how old work must be before this holder does it.
pub(super) async fn patience(database: &Database, duty: &'static str, holder: Uuid) -> Result<Duration> {
    let leads = store::trigger::lead(database, duty, holder, LEASE).await?;
    Ok(if leads.is_some() { Duration::ZERO } else { BEHIND })
}

/// Whether this holder alone performs the duty for at least this long. For a duty whose cost must not depend on the number of
/// keepers.
pub(super) async fn leads(
    database: &Database,
    duty: &'static str,
    holder: Uuid,
    at_least: Duration,
) -> Result<bool> {
    // A lease is written again only in its second half.
    let lease = at_least.min(MAX_LEAD) * 2;
    Ok(store::trigger::lead(database, duty, holder, lease).await?.is_some())
}
