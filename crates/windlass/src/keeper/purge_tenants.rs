//! Deletes the data of tenants that are being deleted, in batches.

use std::time::Duration;

use super::Round;
use crate::error::Result;
use crate::store::database::Database;
use crate::store::manage::purge_deleted_tenants;

pub(super) async fn run_once(database: &Database) -> Result<Round> {
    let purged = purge_deleted_tenants(database).await?;
    // A tenant without jobs may still wait for transactions that could add one.
    let next = purged.map(|_| Duration::from_millis(200));
    Ok(Round { moved: purged.unwrap_or(0), is_full: purged.is_some_and(|purged| purged > 0), next })
}
