//! Migrates the schema to the version of this release: forward only, and safe if several processes start at the same
//! time.
//!
//! Numbered migrations run once each; afterwards their SHA-256 is checked. The functions, views and grants are
//! installed together whenever their common checksum differs, in one transaction, after the numbered migrations:
//! `create or replace` keeps the workers of the previous release running, because a released signature never changes.
//! The same step repairs what a restore lost or somebody changed: the catalog is compared with that of a fresh
//! installation (`store/catalog.txt`).
//!
//! Whether there is anything to do is decided by what every login may read, so a process without privileges can call
//! it at each start. Everything is done as `windlass_owner`; `roles.rs` says who may become that.
//!
//! Migrations, functions and grants of a newer build are not changed. The revision of the functions
//! (`store/functions/revision.txt`) decides which build is newer. No step waits long for a lock on a table, because all
//! users of the table would wait behind it: after two seconds it is canceled and retried.
//!
//! One process migrates at a time: see `lock.rs`.
//!
//! No statement waits for a lock without an end: another session may hold it for as long as its transaction is open.

mod dependents;
mod lock;
mod pending;
mod print;
mod replaced;
mod roles;

use sha2::{Digest, Sha256};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};
use crate::model::doctor::catalog::{Deviation, Difference, differences};
use crate::model::doctor::facts::Installed;
use crate::store::connect::{self, Connection};
use crate::store::database::Settings;
use crate::store::{install, schema};
use crate::text;

pub(super) use lock::blocker;
pub use pending::{PendingSetup, pending};
pub use print::{print_sql, print_sql_from};
pub use roles::print_roles_sql;

/// The defaults of a database or a login must not affect the migration, whose functions are called, or how the catalog
/// is printed. With Citus, none of our tables is distributed, so nothing is propagated to other nodes.
const SESSION: &str =
    "set search_path = pg_catalog, pg_temp; set default_transaction_isolation = 'read committed';
    set default_transaction_deferrable = off; set statement_timeout = 0; set lock_timeout = '10s';
    set quote_all_identifiers = off; set standard_conforming_strings = on;
    select set_config('citus.enable_ddl_propagation', 'off', false) from pg_extension e where e.extname = 'citus'";
const ALREADY_THERE: [SqlState; 3] =
    [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE];
/// How often a step is retried if it could not acquire its locks, each time for two seconds.
const TABLE_TRIES: u32 = 5;
/// The search path is fixed, because names in functions and policies are resolved when these are created.
const STEP: &str = "begin; set local search_path = pg_catalog, pg_temp; set local lock_timeout = '2s'";
const AS_OWNER: &str = "set role windlass_owner";

/// What a migration run did.
///
/// ```no_run
/// # async fn example(settings: &windlass::Settings) -> windlass::Result<()> {
/// let migrated = windlass::migrate(settings).await?;
/// println!("{} migrations, {} repairs", migrated.applied.len(), migrated.repaired.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The numbers of the migrations that were applied.
    pub applied: Vec<i32>,
    /// Whether the functions were installed again.
    pub functions_installed: bool,
    /// What had been lost or changed since the release was installed, and was repaired.
    pub repaired: Vec<String>,
    /// A newer build has installed its functions; they were not changed.
    pub is_newer: bool,
}

/// Migrates the database of the settings, over its direct URL, and repairs what was changed or lost since. Several
/// processes can call it at the same time: one migrates, the others wait. It needs no privilege if there is nothing to do.
///
/// ```no_run
/// # async fn example() -> windlass::Result<()> {
/// let settings = windlass::Settings::new("postgresql://localhost/app")?;
/// let migrated = windlass::migrate(&settings).await?;
/// println!("applied {:?}", migrated.applied);
/// # Ok(())
/// # }
/// ```
pub async fn migrate(settings: &Settings) -> Result<Migrated> {
    let connection = open(settings).await?;
    match run(&connection.client, settings).await {
        Err(error) if error.is_lock_timeout() => {
            Err(Error::MigrationBlocked { by: blocker(&connection.client).await? })
        }
        other => other.map_err(|error| error.needing("windlass_migrator")),
    }
}

async fn open(settings: &Settings) -> Result<Connection> {
    let connection = connect::open(&settings.direct).await?;
    connection.client.batch_execute(SESSION).await?;
    Ok(connection)
}

async fn run(client: &Client, settings: &Settings) -> Result<Migrated> {
    let pending = pending::look(client).await?;
    if pending.is_nothing() {
        return Ok(Migrated { is_newer: pending.is_newer, ..Migrated::default() });
    }
    roles::ensure(client).await?;
    let is_first = pending.is_first && begin(client).await?;
    let before = drift(client).await?;
    take_over(client, &before).await?;
    let holder = open(settings).await?;
    lock::hold(&holder.client).await?;
    let result = migrate_locked(client, &before).await;
    // Ended explicitly, because closing a connection does not wait for the server to notice.
    let unlocked = holder.client.batch_execute("rollback").await;
    let mut migrated = result?;
    unlocked?;
    if is_first {
        migrated.applied.insert(0, schema::MIGRATIONS[0].version);
    }
    Ok(migrated)
}

/// The expected records: version 0 represents the functions.
pub(crate) fn expected() -> Vec<Installed> {
    let of =
        |version, name: &str, sql: &str| Installed { version, name: name.to_owned(), checksum: digest(sql) };
    let functions = of(0, "functions", &functions());
    let migrations = schema::MIGRATIONS.iter().map(|one| of(one.version, one.name, one.sql));
    std::iter::once(functions).chain(migrations).collect()
}

/// Creates the schema and the migration tables, if they do not exist. Returns whether it did.
async fn begin(client: &Client) -> Result<bool> {
    let first = &schema::MIGRATIONS[0];
    let make = format!(
        "{STEP};\n{}\n{}\n{AS_OWNER};\n{};\nreset role; commit",
        schema::BOOKKEEPING,
        first.sql,
        record(first)
    );
    loop {
        if !pending::look(client).await?.is_first {
            return Ok(false);
        }
        match client.batch_execute(&make).await {
            Ok(()) => return Ok(true),
            // Another process has just created it.
            Err(error) if error.code().is_some_and(|code| ALREADY_THERE.contains(code)) => {
                client.batch_execute("rollback").await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// `before` is what differed when it was found that there is something to do.
async fn migrate_locked(client: &Client, before: &[Difference]) -> Result<Migrated> {
    client.batch_execute(AS_OWNER).await?;
    let mut migrated = Migrated::default();
    let installed = client
        .query_opt("select checksum, release from windlass.installed_functions", &[])
        .await?
        .map(|row| (row.get::<_, String>(0), row.get::<_, i32>(1)));
    migrated.is_newer = installed.as_ref().is_some_and(|(_, theirs)| *theirs > revision());
    if !migrated.is_newer {
        replaced::set_aside(client).await?;
    }
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
    if migrated.is_newer {
        return Ok(migrated);
    }
    migrated.functions_installed = installed.is_none_or(|(checksum, _)| checksum != digest(&functions()));
    if !migrated.functions_installed {
        migrated.repaired = before.iter().map(Difference::describe).collect();
    }
    let left = drift(client).await?;
    if migrated.functions_installed || !left.is_empty() || pending::stamp(client).await? != Some(stamp()) {
        let remove: String = left.iter().filter_map(|one| one.undo.clone()).map(|sql| sql + ";\n").collect();
        step(client, &format!("{remove}{}\n{}", functions(), record_functions())).await?;
    }
    client.batch_execute(schema::PREPARE).await?;
    match drift(client).await?.iter().map(Difference::describe).collect::<Vec<_>>().join("; ") {
        left if left.is_empty() => Ok(migrated),
        left => Err(Error::NotRepaired { objects: left }),
    }
}

/// The objects of the schema as they are, in the form of `store/catalog.txt`.
#[doc(hidden)]
pub async fn catalog_lines(settings: &Settings) -> Result<String> {
    let connection = open(settings).await?;
    let objects = install::catalog(&connection.client).await?;
    let mut lines: Vec<String> = objects.iter().map(|one| one.line() + "\n").collect();
    lines.sort_unstable();
    lines.dedup(); // every partition has the same lines
    Ok(lines.concat())
}

/// What differs from a fresh installation and can be repaired.
async fn drift(client: &Client) -> Result<Vec<Difference>> {
    let mut all = differences(schema::CATALOG, &install::catalog(client).await?);
    all.retain(Difference::is_repaired_by_migrate);
    Ok(all)
}

/// Gives the objects of a restored schema to `windlass_owner`. Only their owner or a superuser may. This is done before the lock on
/// `windlass.migration`, which would conflict with it; if several processes do it at the same time, one waits for the other.
async fn take_over(client: &Client, found: &[Difference]) -> Result<()> {
    let owner = |one: &Difference| match &one.deviation {
        Deviation::OwnedBy(owner) => Some(owner.clone()),
        _ => None,
    };
    let Some(of) = found.iter().find_map(owner) else { return Ok(()) };
    let theirs = found.iter().filter(|one| owner(one).is_some());
    let mut statements: Vec<&str> = theirs.filter_map(|one| one.undo.as_deref()).collect();
    // The new owner of an object must be able to create objects in the schema.
    statements.sort_by_key(|statement| !statement.starts_with("alter schema"));
    let alone = "lock table windlass.migration in access exclusive mode;\n";
    let taken = step(client, &format!("{alone}{}", statements.join(";\n"))).await;
    match taken {
        Err(Error::Database(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Err(Error::MigrationDenied {
                login: client.query_one("select current_user::text", &[]).await?.get(0),
                missing: format!(
                    "{} objects of the schema windlass belong to {of}, as after a restore",
                    statements.len()
                ),
                by: format!("{of} or a superuser"),
                statements: "windlass migrate".to_owned(),
            })
        }
        // Another process has taken them, and migrates now.
        Err(Error::MigrationBlocked { .. })
            if drift(client).await?.iter().all(|one| owner(one).is_none()) =>
        {
            Ok(())
        }
        other => other,
    }
}

async fn apply(client: &Client, migration: &schema::Migration) -> Result<()> {
    if migration.sql.starts_with("-- no-transaction") {
        // CREATE INDEX CONCURRENTLY waits for the end of every older transaction, which counts as a lock.
        client.batch_execute("set lock_timeout = 0").await?;
        client.batch_execute(migration.sql).await?;
        client.batch_execute("set lock_timeout = '10s'").await?;
        client.batch_execute(&record(migration)).await?;
    } else {
        step(client, &format!("{}\n{}", migration.sql, record(migration))).await?;
    }
    Ok(())
}

/// Runs one transaction, and retries it while another session holds a lock that it needs.
async fn step(client: &Client, sql: &str) -> Result<()> {
    for _ in 0..TABLE_TRIES {
        match client.batch_execute(&format!("{STEP};\n{sql};\ncommit;")).await {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                client.batch_execute("rollback").await?;
            }
            Err(error) => {
                client.batch_execute("rollback").await?;
                return Err(dependents::explain(client, error).await?);
            }
            Ok(()) => return Ok(()),
        }
    }
    Err(Error::MigrationBlocked { by: blocker(client).await? })
}

/// The revision of the functions of this build, which increases with every change. Its column is called `release`.
fn revision() -> i32 {
    let number = schema::REVISION.split(' ').next().and_then(|number| number.parse().ok());
    number.expect("a test reads the same file")
}

/// Written by the owner role, which owns that table.
fn record(migration: &schema::Migration) -> String {
    format!(
        "insert into windlass.migration (version, name, checksum) values ({}, '{}', '{}')",
        migration.version,
        migration.name,
        digest(migration.sql)
    )
}

fn functions() -> String {
    schema::FUNCTIONS.join("\n")
}

fn record_functions() -> String {
    format!(
        "delete from windlass.installed_functions; insert into windlass.installed_functions (checksum, release) values ('{}', {});
comment on schema windlass is '{}'",
        digest(&functions()),
        revision(),
        stamp()
    )
}

/// The comment of the schema: what is installed, for logins that may not read our tables.
fn stamp() -> String {
    let all: String = expected().into_iter().map(|one| one.checksum).collect();
    let version = crate::store::supported::NEWEST_SCHEMA;
    format!("windlass schema {version}, functions {} ({})", revision(), &digest(&all)[..16])
}

fn digest(sql: &str) -> String {
    text::hex(&Sha256::digest(sql))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `WINDLASS_BLESS=1` increments it.
    #[test]
    fn the_revision_rises_with_every_change_of_a_function() {
        let expected = digest(&functions());
        if schema::REVISION == format!("{} {expected}\n", revision()) {
            return;
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/functions/revision.txt");
        assert!(
            std::env::var_os("WINDLASS_BLESS").is_some(),
            "a function file has changed: increment the number in {file} and write the checksum {expected} after it \
             (`WINDLASS_BLESS=1 cargo test -p windlass --lib the_revision_rises` does both), or an older build overwrites this one's functions"
        );
        std::fs::write(file, format!("{} {expected}\n", revision() + 1)).unwrap();
    }
}
