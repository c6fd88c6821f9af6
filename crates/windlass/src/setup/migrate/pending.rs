//! What a migration would do, by what every login may read: the catalog, and the comment of the schema where our own
//! tables may not be read.

use tokio_postgres::Client;

use super::{drift, expected, open, revision, stamp as our_stamp};
use crate::error::{Error, Result};
use crate::model::doctor::catalog::Difference;
use crate::store::database::Settings;
use crate::store::{doctor, install, schema, supported};

/// What [`migrate`](crate::migrate) would do.
///
/// ```no_run
/// # async fn example(settings: &windlass::Settings) -> windlass::Result<()> {
/// let pending = windlass::setup::pending(settings).await?;
/// if !pending.is_nothing() {
///     println!("would apply {:?} and repair {:?}", pending.migrations, pending.repairs);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingSetup {
    /// The numbers of the migrations that are not applied.
    pub migrations: Vec<i32>,
    /// Whether the functions are those of another release, and older.
    pub functions: bool,
    /// What was lost or changed since the release was installed.
    pub repairs: Vec<String>,
    /// A newer build has installed its functions; they are not changed.
    pub is_newer: bool,
    /// There is no schema yet.
    pub(super) is_first: bool,
}

impl PendingSetup {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.migrations.is_empty() && !self.functions && self.repairs.is_empty()
    }
}

/// Returns what a migration of this database would do. Changes nothing, and needs no privilege if there is nothing to do.
///
/// ```no_run
/// # async fn example(settings: &windlass::Settings) -> windlass::Result<()> {
/// // A deployment that migrates in a separate step checks that it has run.
/// assert!(windlass::setup::pending(settings).await?.is_nothing());
/// # Ok(())
/// # }
/// ```
pub async fn pending(settings: &Settings) -> Result<PendingSetup> {
    let connection = open(settings).await?;
    look(&connection.client).await
}

pub(super) async fn look(client: &Client) -> Result<PendingSetup> {
    supported::check_server(install::server_version(client).await?)?;
    // Before anything of the schema is read or written: a table of another role could have a trigger, and a view could run anything.
    if !is_installed(client).await? {
        let migrations = schema::MIGRATIONS.iter().map(|one| one.version).collect();
        return Ok(PendingSetup { migrations, functions: true, is_first: true, ..PendingSetup::default() });
    }
    let stamp = stamp(client).await?;
    let mut pending = match records(client).await? {
        Some(records) if records.is_empty() => {
            let migrations = schema::MIGRATIONS.iter().map(|one| one.version).collect();
            return Ok(PendingSetup {
                migrations,
                functions: true,
                is_first: true,
                ..PendingSetup::default()
            });
        }
        Some(records) => from_records(&records),
        None if stamp.as_deref() == Some(&our_stamp()) => PendingSetup::default(),
        None if stamp.as_deref().and_then(revision_in).is_some_and(|theirs| theirs > revision()) => {
            PendingSetup { is_newer: true, ..PendingSetup::default() }
        }
        None => PendingSetup { functions: true, ..PendingSetup::default() },
    };
    if !pending.is_newer && pending.migrations.is_empty() && !pending.functions {
        pending.repairs = drift(client).await?.iter().map(Difference::describe).collect();
        if stamp != Some(our_stamp()) {
            pending.repairs.push("the comment of the schema is missing".to_owned());
        }
    }
    Ok(pending)
}

fn from_records(records: &[(i32, String, i32)]) -> PendingSetup {
    let mut pending = PendingSetup::default();
    for wanted in expected() {
        let found = records.iter().find(|(version, ..)| *version == wanted.version);
        let is_same = found.is_some_and(|(_, checksum, _)| *checksum == wanted.checksum);
        match found {
            Some((0, _, theirs)) if *theirs > revision() => pending.is_newer = true,
            _ if is_same => {}
            _ if wanted.version == 0 => pending.functions = true,
            _ => pending.migrations.push(wanted.version),
        }
    }
    pending
}

/// Whether the schema is ours. Refuses one that another role created before the first migration, or in which another role has put
/// objects: functions of the owner have the schema in their search path and would run them.
async fn is_installed(client: &Client) -> Result<bool> {
    let Some(contents) = doctor::schema_contents(client).await? else { return Ok(false) };
    let objects = if contents.is_installed {
        contents.foreign_objects
    } else if contents.is_ours || contents.is_callers {
        contents.objects
    } else {
        return Err(Error::SchemaTaken { owner: contents.owner });
    };
    match objects.join("; ") {
        objects if objects.is_empty() => Ok(contents.is_installed),
        objects => Err(Error::ForeignObjects { objects }),
    }
}

/// Version, checksum and revision of what is installed, the functions with the version 0; nothing if this login may not read it.
async fn records(client: &Client) -> Result<Option<Vec<(i32, String, i32)>>> {
    let is_readable = "select count(*) = 2 and bool_and(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'))
        from pg_catalog.pg_namespace n join pg_catalog.pg_class c on c.relnamespace = n.oid
       where n.nspname = 'windlass' and c.relname in ('migration', 'installed_functions')";
    if !client.query_one(is_readable, &[]).await?.get::<_, Option<bool>>(0).unwrap_or_default() {
        return Ok(None);
    }
    let query = "select m.version, m.checksum, 0 from windlass.migration m
        union all select 0, i.checksum, i.release from windlass.installed_functions i";
    let rows = client.query(query, &[]).await?;
    Ok(Some(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()))
}

/// The comment of the schema.
pub(super) async fn stamp(client: &Client) -> Result<Option<String>> {
    let query = "select obj_description(n.oid, 'pg_namespace') from pg_catalog.pg_namespace n where n.nspname = 'windlass'";
    let row = client.query_opt(query, &[]).await?;
    Ok(row.and_then(|row| row.get(0)))
}

fn revision_in(stamp: &str) -> Option<i32> {
    stamp.strip_prefix("windlass schema ")?.split_once(", functions ")?.1.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{our_stamp, revision, revision_in};

    #[test]
    fn the_comment_of_the_schema_names_the_revision() {
        assert_eq!(revision_in(&our_stamp()), Some(revision()));
        assert_eq!(revision_in("our job queue"), None);
    }
}
