//! Brings the schema to this release's version: forward only, and safe when ten processes start at once.
//!
//! Numbered migrations run once each and are checked by their SHA-256 ever after. The functions, views and grants are
//! installed whole whenever their common checksum differs, in one transaction, after the numbered ones: `create or
//! replace` keeps the previous release's workers running, since a released signature is never changed.
//!
//! The lock is polled with `pg_try_advisory_lock`. A blocking lock would hold a snapshot while it waits, and that
//! deadlocks with CREATE INDEX CONCURRENTLY in a `-- no-transaction` migration. It needs a session of its own, so
//! migrations run on the direct address.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio_postgres::Client;

use crate::doctor::facts::Installed;
use crate::error::{Error, Result};
use crate::store::database::Settings;
use crate::store::{connect, schema};
use crate::text;

/// The schema versions this release can work with. The oldest is the previous release's newest.
pub const OLDEST_SCHEMA: i32 = 3;
pub const NEWEST_SCHEMA: i32 = schema::MIGRATIONS[schema::MIGRATIONS.len() - 1].version;

const LOCK: i64 = 0x0077_696e_646c_6173; // "windlas"
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// What a migration run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migrated {
    pub applied: Vec<i32>,
    pub functions_installed: bool,
}

/// Migrates the database that the settings' direct address names.
pub async fn migrate(settings: &Settings) -> Result<Migrated> {
    let connection = connect::open(&settings.direct).await?;
    let client = &connection.client;
    lock(client).await?;
    let answer = migrate_locked(client).await;
    // Unlocked by hand so that a pooler which ignores the session's end does not keep it; closing would do otherwise.
    let unlocked = client.execute("select pg_advisory_unlock($1)", &[&LOCK]).await;
    let migrated = answer?;
    unlocked?;
    Ok(migrated)
}

/// Everything `migrate` would run on an empty database, for a person to read or to run by hand.
#[must_use]
pub fn print_sql() -> String {
    let mut sql = String::from(schema::BOOKKEEPING);
    for migration in schema::MIGRATIONS {
        sql.push_str(&format!(
            "\n-- migration {} {}\nbegin;\n{}\n{};\ncommit;\n",
            migration.version,
            migration.name,
            migration.sql,
            record(migration)
        ));
    }
    sql.push_str(&format!(
        "\n-- functions, views and grants\nbegin;\nset local role windlass_owner;\n{}\n",
        functions()
    ));
    sql.push_str(&format!("{};\ncommit;\n{};\n", record_functions(), schema::PREPARE));
    sql
}

/// Refuses to work on a schema that this release does not know.
pub(crate) async fn check(client: &impl tokio_postgres::GenericClient) -> Result<()> {
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

/// What the books should say: version 0 stands for the functions.
pub(crate) fn expected() -> Vec<Installed> {
    let of =
        |version, name: &str, sql: &str| Installed { version, name: name.to_owned(), checksum: digest(sql) };
    let functions = of(0, "functions", &functions());
    let migrations = schema::MIGRATIONS.iter().map(|one| of(one.version, one.name, one.sql));
    std::iter::once(functions).chain(migrations).collect()
}

async fn lock(client: &Client) -> Result<()> {
    let started = Instant::now();
    loop {
        let locked: bool = client.query_one("select pg_try_advisory_lock($1)", &[&LOCK]).await?.get(0);
        if locked {
            return Ok(());
        }
        if started.elapsed() > LOCK_PATIENCE {
            return Err(Error::MigrationLock { seconds: LOCK_PATIENCE.as_secs() });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn migrate_locked(client: &Client) -> Result<Migrated> {
    client.batch_execute(schema::BOOKKEEPING).await?;
    let mut migrated = Migrated::default();
    for migration in schema::MIGRATIONS {
        let known: Option<String> = client
            .query_opt("select checksum from windlass.migration where version = $1", &[&migration.version])
            .await?
            .map(|row| row.get(0));
        match known {
            Some(checksum) if checksum == digest(migration.sql) => {}
            Some(_) => return Err(Error::MigrationChanged { version: migration.version }),
            None => {
                apply(client, migration).await?;
                migrated.applied.push(migration.version);
            }
        }
    }
    let installed: Option<String> = client
        .query_opt("select checksum from windlass.installed_functions", &[])
        .await?
        .map(|row| row.get(0));
    if installed.as_deref() != Some(digest(&functions()).as_str()) {
        client
            .batch_execute(&format!(
                "begin; set local role windlass_owner;\n{}\n{}; commit;",
                functions(),
                record_functions()
            ))
            .await?;
        migrated.functions_installed = true;
    }
    client.batch_execute(schema::PREPARE).await?;
    Ok(migrated)
}

async fn apply(client: &Client, migration: &schema::Migration) -> Result<()> {
    if migration.sql.starts_with("-- no-transaction") {
        client.batch_execute(migration.sql).await?;
        client.batch_execute(&record(migration)).await?;
    } else {
        client.batch_execute(&format!("begin;\n{}\n{}; commit;", migration.sql, record(migration))).await?;
    }
    Ok(())
}

fn record(migration: &schema::Migration) -> String {
    format!(
        "reset role; insert into windlass.migration (version, name, checksum) values ({}, '{}', '{}')",
        migration.version,
        migration.name,
        digest(migration.sql)
    )
}

pub(crate) fn functions() -> String {
    schema::FUNCTIONS.join("\n")
}

fn record_functions() -> String {
    format!(
        "reset role; delete from windlass.installed_functions; insert into windlass.installed_functions (checksum) values ('{}')",
        digest(&functions())
    )
}

fn digest(sql: &str) -> String {
    text::hex(&Sha256::digest(sql))
}
