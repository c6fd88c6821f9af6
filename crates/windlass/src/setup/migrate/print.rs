//! The SQL of a migration, for people who run it with their own tools.
//!
//! It has no `begin` and no `commit`, because most tools run a file in a transaction of theirs, and settings apply to the session, so that it
//! also works statement by statement.

use super::{AS_OWNER, functions, record, record_functions, roles};
use crate::store::schema;

const HEADER: &str = "-- Run this in one transaction, as your migration tool does, or `psql --single-transaction -v ON_ERROR_STOP=1`.
set search_path = pg_catalog, pg_temp;
set standard_conforming_strings = on;
select set_config('citus.enable_ddl_propagation', 'off', false) from pg_extension e where e.extname = 'citus';
";

/// Nothing checks the contents of an existing schema when the SQL is run by hand, so there must be none.
const ONLY_WITHOUT_SCHEMA: &str = "do $$ begin
  if exists (select from pg_catalog.pg_namespace n where n.nspname = 'windlass') then
    raise exception 'the schema windlass already exists'
      using hint = 'This script is for a database without it. `windlass migrate` checks what the schema contains.';
  end if;
end $$;
";

/// The SQL that `migrate` would run on an empty database, to review it or to run it with another tool.
///
/// ```
/// let sql = windlass::setup::print_sql();
/// assert!(sql.contains("create schema"));
/// ```
#[must_use]
pub fn print_sql() -> String {
    let roles = roles::install_sql();
    let start = format!("{HEADER}{ONLY_WITHOUT_SCHEMA}\n{roles}\n{}", schema::BOOKKEEPING);
    format!("{start}{}", steps(0))
}

/// The SQL that upgrades a database whose newest migration has this number; the functions are always included.
///
/// ```
/// use windlass::setup::{NEWEST_SCHEMA, print_sql, print_sql_from};
///
/// assert!(print_sql_from(NEWEST_SCHEMA).len() < print_sql().len());
/// ```
#[must_use]
pub fn print_sql_from(version: i32) -> String {
    format!(
        "{HEADER}do $$ begin
  if (select max(m.version) from windlass.migration m) is distinct from {version} then
    raise exception 'the schema windlass has version %, and this script is for version {version}',
      (select max(m.version) from windlass.migration m)
      using hint = 'Print it again with --from and that version.';
  end if;
end $$;
{}",
        steps(version)
    )
}

fn steps(after: i32) -> String {
    let mut sql = String::new();
    for migration in schema::MIGRATIONS.iter().filter(|one| one.version > after) {
        // The first one gives the schema to the owner role, so it cannot run as that role.
        let (before, then) =
            if migration.version == 1 { ("reset role", AS_OWNER) } else { (AS_OWNER, AS_OWNER) };
        sql.push_str(&format!(
            "\n-- migration {} {}\n{before};\n{}\n{then};\n{};\n",
            migration.version,
            migration.name,
            migration.sql,
            record(migration)
        ));
    }
    sql.push_str(&format!(
        "\n-- functions, views and grants\n{AS_OWNER};\n{}\n{};\n",
        functions(),
        record_functions()
    ));
    sql.push_str(&format!("{};\nreset role;\nreset search_path;\n", schema::PREPARE));
    sql
}
