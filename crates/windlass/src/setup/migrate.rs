//! Migrates the schema to the version of this release: forward only, and safe if several processes start at the same
//! time.
//!
//! Numbered migrations run once each; afterwards their SHA-256 is checked. The functions, views and grants are
//! installed together whenever their common checksum differs, in one transaction, after the numbered migrations:
//! `create or replace` keeps the workers of the previous release running, because a released signature never changes.
//!
//! Migrations, functions and grants of a newer build are not changed. The revision of the functions
//! (`store/functions/revision.txt`) decides which build is newer. No step waits long for a lock on a table, because all
//! users of the table would wait behind it: after two seconds it is canceled and retried.
//!
//! One process migrates at a time. It holds a lock on `windlass.migration` in a second session, because there are
//! several migration transactions, and some migrations run outside of one (`-- no-transaction`). The lock is SHARE
//! UPDATE EXCLUSIVE: a role that can only read cannot acquire a conflicting lock, whereas every login can acquire an
//! advisory lock. It is polled, because CREATE INDEX CONCURRENTLY may wait for a session that waits for a lock. The
//! very first step creates that table, so it runs before the lock, in one transaction: if two processes create the same
//! schema, one fails, and checks again.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};
use crate::model::doctor::facts::Installed;
use crate::store::database::Settings;
use crate::store::{connect, doctor, schema, supported};
use crate::text;

/// The defaults of a database or a login must not affect the migration, nor whose functions are called.
const SESSION: &str =
    "set search_path = pg_catalog, pg_temp; set default_transaction_isolation = 'read committed';
    set default_transaction_deferrable = off; set statement_timeout = 0";
/// The session is idle while another one works, and must not be terminated for that.
const LOCK: &str = "begin isolation level read committed; set local idle_in_transaction_session_timeout = 0;
    lock table windlass.migration in share update exclusive mode nowait";
const ALREADY_THERE: [SqlState; 3] =
    [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE];
const LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// How often a step is retried if it could not acquire its locks, each time for two seconds.
const TABLE_TRIES: u32 = 5;
/// The search path is fixed, because names in functions and policies are resolved when these are created.
const STEP: &str = "begin; set local search_path = pg_catalog, pg_temp; set local lock_timeout = '2s'";

/// By hand nobody checks what a schema of that name contains, so there must be none.
const ONLY_WITHOUT_SCHEMA: &str = "do $$ begin
  if exists (select from pg_catalog.pg_namespace n where n.nspname = 'windlass') then
    raise exception 'the schema windlass already exists'
      using hint = 'This script is for a database without it. `windlass migrate` checks what the schema contains.';
  end if;
end $$;
";

/// What a migration run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The numbers of the migrations that were applied.
    pub applied: Vec<i32>,
    /// Whether the functions were installed again.
    pub functions_installed: bool,
    /// A newer build has installed its functions; they were not changed.
    pub is_newer: bool,
}

/// Migrates the database of the settings, over its direct URL. Several processes can call it at the same time: one
/// migrates, the others wait.
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
    let connection = connect::open(&settings.direct).await?;
    let client = &connection.client;
    client.batch_execute(SESSION).await?;
    run(client, settings).await.map_err(|error| error.needing("windlass_migrator"))
}

async fn run(client: &Client, settings: &Settings) -> Result<Migrated> {
    let is_first = begin(client).await?;
    if !is_first && is_current(client).await? {
        client.batch_execute(schema::PREPARE).await?;
        return Ok(Migrated::default());
    }
    let holder = connect::open(&settings.direct).await?;
    lock(&holder.client).await?;
    let result = migrate_locked(client).await;
    // Ended explicitly, because closing a connection does not wait for the server to notice.
    let unlocked = holder.client.batch_execute("rollback").await;
    let mut migrated = result?;
    unlocked?;
    if is_first {
        migrated.applied.insert(0, schema::MIGRATIONS[0].version);
    }
    Ok(migrated)
}

/// The SQL that `migrate` would run on an empty database, to review it or to run it manually.
#[must_use]
pub fn print_sql() -> String {
    let mut sql = format!("{ONLY_WITHOUT_SCHEMA}{}", schema::BOOKKEEPING);
    for migration in schema::MIGRATIONS {
        sql.push_str(&format!(
            "\n-- migration {} {}\n{STEP};\n{}\n{};\ncommit;\n",
            migration.version,
            migration.name,
            migration.sql,
            record(migration)
        ));
    }
    sql.push_str(&format!(
        "\n-- functions, views and grants\n{STEP};\nset local role windlass_owner;\n{}\n",
        functions()
    ));
    sql.push_str(&format!("{};\ncommit;\n{};\n", record_functions(), schema::PREPARE));
    sql
}

/// The expected records: version 0 represents the functions.
pub(crate) fn expected() -> Vec<Installed> {
    let of =
        |version, name: &str, sql: &str| Installed { version, name: name.to_owned(), checksum: digest(sql) };
    let functions = of(0, "functions", &functions());
    let migrations = schema::MIGRATIONS.iter().map(|one| of(one.version, one.name, one.sql));
    std::iter::once(functions).chain(migrations).collect()
}

/// Creates the schema, the migration tables and the roles, if they do not exist. Returns whether it did.
async fn begin(client: &Client) -> Result<bool> {
    let version = "select current_setting('server_version_num')::integer";
    supported::check_server(client.query_one(version, &[]).await?.get(0))?;
    let first = &schema::MIGRATIONS[0];
    // Before anything of the schema is read or written: a table of another role could have a trigger, and a view could run anything.
    refuse_foreign(client).await?;
    let make = format!("{STEP};\n{}\n{}\n{};\ncommit;", schema::BOOKKEEPING, first.sql, record(first));
    loop {
        let has_books = "select to_regclass('windlass.migration') is not null";
        let recorded = "select exists (select from windlass.migration)";
        if client.query_one(has_books, &[]).await?.get::<_, bool>(0)
            && client.query_one(recorded, &[]).await?.get::<_, bool>(0)
        {
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

/// Refuses a schema that another role created before the first migration, or in which another role has put objects: functions of the
/// owner have the schema in their search path and would run them.
async fn refuse_foreign(client: &Client) -> Result<()> {
    let Some(contents) = doctor::schema_contents(client).await? else { return Ok(()) };
    let objects = if contents.is_installed() {
        contents.foreign_objects
    } else if contents.is_ours || contents.is_callers {
        contents.objects
    } else {
        return Err(Error::SchemaTaken { owner: contents.owner });
    };
    match objects.join("; ") {
        objects if objects.is_empty() => Ok(()),
        objects => Err(Error::ForeignObjects { objects }),
    }
}

/// Whether everything is installed already: then nobody needs the lock, nor the right to take it.
async fn is_current(client: &Client) -> Result<bool> {
    let query = "select version, checksum from windlass.migration
        union all select 0, checksum from windlass.installed_functions";
    let rows = client.query(query, &[]).await?;
    let found: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    Ok(expected().into_iter().all(|wanted| found.contains(&(wanted.version, wanted.checksum))))
}

async fn lock(client: &Client) -> Result<()> {
    let started = Instant::now();
    loop {
        match client.batch_execute(LOCK).await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                client.batch_execute("rollback").await?;
            }
            Err(error) => return Err(error.into()),
        }
        if started.elapsed() > LOCK_PATIENCE {
            return Err(Error::MigrationLock { seconds: LOCK_PATIENCE.as_secs() });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn migrate_locked(client: &Client) -> Result<Migrated> {
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
    let installed = client
        .query_opt("select checksum, release from windlass.installed_functions", &[])
        .await?
        .map(|row| (row.get::<_, String>(0), row.get::<_, i32>(1)));
    migrated.is_newer = installed.as_ref().is_some_and(|(_, theirs)| *theirs > revision());
    if migrated.is_newer {
        return Ok(migrated);
    }
    if installed.is_none_or(|(checksum, _)| checksum != digest(&functions())) {
        let install = format!("set local role windlass_owner;\n{}\n{}", functions(), record_functions());
        step(client, &install).await?;
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
            Err(error) => return Err(error.into()),
            Ok(()) => return Ok(()),
        }
    }
    Err(Error::MigrationBlocked { by: blocker(client).await? })
}

/// The session that has held a lock on one of our tables for the longest time.
async fn blocker(client: &Client) -> Result<String> {
    let query = "select format('process %s of %s (%s), in a transaction since %s: %s', a.pid, a.usename,
            coalesce(nullif(a.application_name, ''), 'unnamed'), a.xact_start, left(a.query, 200))
        from pg_catalog.pg_locks l
        join pg_catalog.pg_class c on c.oid = l.relation and c.relnamespace = 'windlass'::regnamespace
        join pg_catalog.pg_stat_activity a on a.pid = l.pid
       where l.granted and l.pid <> pg_backend_pid() order by a.xact_start limit 1";
    let row = client.query_opt(query, &[]).await?;
    Ok(row.map_or_else(|| "a process that has since ended".to_owned(), |row| row.get(0)))
}

/// The revision of the functions of this build, which increases with every change. Its column is called `release`.
fn revision() -> i32 {
    let number = schema::REVISION.split(' ').next().and_then(|number| number.parse().ok());
    number.expect("a test reads the same file")
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
        "reset role; delete from windlass.installed_functions; insert into windlass.installed_functions (checksum, release) values ('{}', {})",
        digest(&functions()),
        revision()
    )
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
