//! The servers and the schema versions that this release supports.

use super::schema;
use crate::error::{Error, Result};
use crate::model::server_version::{VersionSupport, standing};

/// The oldest schema version that this release supports: the one whose functions its statements call. There is no
/// previous release, so that is its own version; the next release sets it to the newest of this one.
pub const OLDEST_SCHEMA: i32 = NEWEST_SCHEMA;
/// The newest schema version that this release supports.
pub const NEWEST_SCHEMA: i32 = schema::MIGRATIONS[schema::MIGRATIONS.len() - 1].version;

/// Refuses a server that is too old, by its `server_version_num`.
pub(crate) fn check_server(version: i32) -> Result<()> {
    let shown = format!("Postgres {}.{}", version / 10_000, version % 10_000);
    match standing(version) {
        VersionSupport::TooOld => {
            let found = format!("{}.{}", version / 10_000, version % 10_000);
            Err(Error::ServerVersion { found, oldest: 15 })
        }
        VersionSupport::Unfixed { fixed_in } => {
            tracing::warn!("{shown} lacks security fixes of row-level security; upgrade to {fixed_in}");
            Ok(())
        }
        VersionSupport::Fine => Ok(()),
    }
}

/// Refuses a schema that this release does not support.
pub(crate) async fn check_schema(client: &impl tokio_postgres::GenericClient) -> Result<()> {
    let found: i32 = match client.query_typed("select max(version) from windlass.migration", &[]).await {
        Ok(rows) => rows.first().and_then(|row| row.get::<_, Option<i32>>(0)).unwrap_or(0),
        Err(error) if error.code().is_some_and(|code| matches!(code.code(), "42P01" | "3F000")) => 0,
        Err(error) => return Err(error.into()),
    };
    let advice = if found < OLDEST_SCHEMA {
        "run `windlass migrate`"
    } else if found > NEWEST_SCHEMA + schema::TOLERATED_AHEAD {
        "upgrade this program"
    } else {
        return Ok(());
    };
    Err(Error::SchemaVersion { found, oldest: OLDEST_SCHEMA, newest: NEWEST_SCHEMA, advice })
}
