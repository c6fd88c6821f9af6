//! The settings of the server that the guide on sizing names, as changes of one database, so that they are measured in one run.

use tokio_postgres::Client;

use crate::Result;

/// A name, and the settings that it changes.
type Change = (&'static str, &'static [(&'static str, &'static str)]);

pub(super) const CHANGES: [Change; 6] = [
    ("defaults", &[]),
    ("wal_compression = pglz", &[("wal_compression", "pglz")]),
    ("wal_compression = lz4", &[("wal_compression", "lz4")]),
    ("commit_delay = 100", &[("commit_delay", "100")]),
    ("commit_delay = 500", &[("commit_delay", "500")]),
    ("synchronous_commit = off", &[("synchronous_commit", "off")]),
];

/// For all later sessions of this database.
pub(super) async fn change(client: &Client, settings: &[(&str, &str)]) -> Result<()> {
    for (name, value) in settings {
        let change = format!(
            "do $$ begin execute format('alter database %I set {name} = %L', current_database(), '{value}'); end $$"
        );
        client.batch_execute(&change).await?;
    }
    Ok(())
}
