//! Which servers and which schemas this release works with.

use super::schema;
use crate::error::{Error, Result};
use crate::model::server_version::{Standing, standing};

/// The schema versions this release can work with. The oldest is the one whose functions this release's statements call. No release came
/// before this one, so that is its own; the next release sets it to the newest of this one.
pub const OLDEST_SCHEMA: i32 = NEWEST_SCHEMA;
/// The newest version of the schema that this release works with.
pub const NEWEST_SCHEMA: i32 = schema::MIGRATIONS[schema::MIGRATIONS.len() - 1].version;

/// Refuses a server that is too old, by its `server_version_num`.
pub(crate) fn check_server(version: i32) -> Result<()> {
    let shown = format!("Postgres {}.{}", version / 10_000, version % 10_000);
    match standing(version) {
        Standing::TooOld => {
            let found = format!("{}.{}", version / 10_000, version % 10_000);
            Err(Error::ServerVersion { found, oldest: 15 })
        }
        Standing::Unfixed { fixed_in } => {
            tracing::warn!("{shown} lacks fixes that row-level security rests on; upgrade to {fixed_in}");
            Ok(())
        }
        Standing::Fine => Ok(()),
    }
}

/// Refuses to work on a schema that this release does not know.
pub(crate) async fn check_schema(client: &impl tokio_postgres::GenericClient) -> Result<()> {
    let found: i32 = match client.query_typed("select max(version) from windlass.migration", &[]).await {
        Ok(rows) => rows.first().and_then(|row| row.get::<_, Option<i32>>(0)).unwrap_or(0),
        Err(error) if error.code().is_some_and(|code| matches!(code.code(), "42P01" | "3F000")) => 0,
        Err(error) => return Err(error.into()),
    };
    let advice = if found < OLDEST_SCHEMA {
        "run the migrations"
    } else if found > NEWEST_SCHEMA + schema::TOLERATED_AHEAD {
        "upgrade this program"
    } else {
        return Ok(());
    };
    Err(Error::SchemaVersion { found, oldest: OLDEST_SCHEMA, newest: NEWEST_SCHEMA, advice })
}
