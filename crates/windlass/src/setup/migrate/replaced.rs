//! Functions that this release replaces although objects of others depend on them, such as a view of an application.
//!
//! A migration drops the functions of earlier releases, and Postgres refuses to drop what something depends on. Every login
//! that can use the schema can create such a view, even on a function that it may not execute, and would keep the database
//! from being upgraded. So these functions are renamed first, and no role can execute them: the view stays, and fails for
//! its readers. The doctor reports both. The same applies to everything else that can depend on a function: whatever is not
//! known to belong to our schema counts as an object of others.

use tokio_postgres::Client;

use super::step;
use crate::error::Result;
use crate::store::schema;

/// The prefix is unused in every release: none of our functions begins with `replaced_`.
const FIND: &str = "
    select format('alter function windlass.%I(%s) rename to %I', p.proname, i.arguments, i.kept)
      from pg_catalog.pg_proc p
     cross join lateral (select pg_catalog.pg_get_function_identity_arguments(p.oid) as arguments,
                                'replaced_' || p.oid || '_' || left(p.proname::text, 40) as kept) i
     where p.pronamespace = 'windlass'::regnamespace and p.proowner = 'windlass_owner'::regrole and p.proname not like 'replaced\\_%'
       and not exists (select from unnest($1::text[], $2::text[]) k (name, state)
             where k.name = p.proname || '(' || i.arguments || ')' and starts_with(k.state, pg_catalog.pg_get_function_result(p.oid) || ','))
       and exists (select from pg_catalog.pg_depend d
             where d.refclassid = 'pg_catalog.pg_proc'::regclass and d.refobjid = p.oid and d.deptype = 'n'
               and 'windlass'::regnamespace is distinct from coalesce(
                     (select c.relnamespace from pg_catalog.pg_rewrite w join pg_catalog.pg_class c on c.oid = w.ev_class
                       where d.classid = 'pg_catalog.pg_rewrite'::regclass and w.oid = d.objid),
                     (select o.pronamespace from pg_catalog.pg_proc o
                       where d.classid = 'pg_catalog.pg_proc'::regclass and o.oid = d.objid),
                     (select c.relnamespace from pg_catalog.pg_attrdef w join pg_catalog.pg_class c on c.oid = w.adrelid
                       where d.classid = 'pg_catalog.pg_attrdef'::regclass and w.oid = d.objid),
                     (select w.connamespace from pg_catalog.pg_constraint w
                       where d.classid = 'pg_catalog.pg_constraint'::regclass and w.oid = d.objid),
                     (select c.relnamespace from pg_catalog.pg_trigger w join pg_catalog.pg_class c on c.oid = w.tgrelid
                       where d.classid = 'pg_catalog.pg_trigger'::regclass and w.oid = d.objid),
                     (select c.relnamespace from pg_catalog.pg_policy w join pg_catalog.pg_class c on c.oid = w.polrelid
                       where d.classid = 'pg_catalog.pg_policy'::regclass and w.oid = d.objid),
                     (select t.typnamespace from pg_catalog.pg_type t
                       where d.classid = 'pg_catalog.pg_type'::regclass and t.oid = d.objid),
                     (select c.relnamespace from pg_catalog.pg_class c
                       where d.classid = 'pg_catalog.pg_class'::regclass and c.oid = d.objid)))";

/// Who may execute those that were renamed.
const REVOKE: &str = "
    select format('revoke all on function windlass.%I(%s) from %s', p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid),
             case a.grantee when 0 then 'public' else quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end)
      from pg_catalog.pg_proc p
     cross join lateral pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
     where p.pronamespace = 'windlass'::regnamespace and p.proname like 'replaced\\_%' and a.grantee <> p.proowner";

/// As the owner role.
pub(super) async fn set_aside(client: &Client) -> Result<()> {
    let (names, states): (Vec<&str>, Vec<&str>) =
        schema::CATALOG.lines().filter_map(|line| line.strip_prefix("function\t")?.split_once('\t')).unzip();
    let renames: Vec<String> =
        client.query(FIND, &[&names, &states]).await?.iter().map(|row| row.get(0)).collect();
    if !renames.is_empty() {
        step(client, &renames.join(";\n")).await?;
    }
    let revokes: Vec<String> = client.query(REVOKE, &[]).await?.iter().map(|row| row.get(0)).collect();
    if !revokes.is_empty() {
        step(client, &revokes.join(";\n")).await?;
    }
    Ok(())
}
