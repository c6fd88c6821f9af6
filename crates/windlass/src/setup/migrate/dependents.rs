//! Objects outside of the schema that stop a migration: Postgres neither alters a table whose row type is that of a column elsewhere, nor
//! drops what something depends on. Logins cannot create such columns (see `guard_types`), but those of earlier releases could. They can
//! create an index on an expression of that type, so later migrations rewrite no rows (a rule of windlass-tidy).

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};

/// Each statement drops one object that depends on the row type of one of our tables.
const FIND: &str = "
    select distinct case when a.attname is not null then format('alter table %s drop column %I', d.objid::regclass, a.attname)
             else format('drop %s %s', i.type, i.identity) end
      from pg_catalog.pg_class c
      join pg_catalog.pg_type t on t.oid = c.reltype
      join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_type'::regclass and d.refobjid in (t.oid, t.typarray) and d.deptype = 'n'
     cross join lateral pg_catalog.pg_identify_object(d.classid, d.objid, 0) i
      left join pg_catalog.pg_attribute a
        on d.classid = 'pg_catalog.pg_class'::regclass and a.attrelid = d.objid and a.attnum = d.objsubid and a.attnum > 0
     where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and i.schema is distinct from 'windlass'
     order by 1";

/// The error of a step. If it is about such objects, it says how to drop them.
pub(super) async fn explain(client: &Client, error: tokio_postgres::Error) -> Result<Error> {
    let stopped = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::DEPENDENT_OBJECTS_STILL_EXIST];
    let Some(found) = error.as_db_error().filter(|one| stopped.contains(one.code())) else {
        return Ok(error.into());
    };
    let reason = [Some(found.message()), found.detail()].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let statements: Vec<String> = client.query(FIND, &[]).await?.iter().map(|row| row.get(0)).collect();
    Ok(Error::MigrationDependents { reason, statements: statements.join("; ") })
}
