-- What is in the schema windlass and does not belong to windlass_owner: functions of the owner run with this schema in their search path,
-- so whatever another role put there could run with the owner's privileges. Reads the catalog only: a table or view of another role, such
-- as a `windlass.migration` that was created before the first migration, could run code of that role when it is read.
-- Objects of a superuser are not foreign: a superuser can run anything as the owner. They are common where the login is
-- called windlass, because the usual search path starts with the schema of that name.
-- Every object of a schema depends on it. The owner of an object is a shared dependency; the first superuser (10) has none.
with schema as (
  select n.oid, n.nspowner as owner from pg_catalog.pg_namespace n where n.nspname = 'windlass'),
objects as (
  select format('drop %s %s', i.type, i.identity) as statement, i.identity, d.objid as oid,
         coalesce((select s.refobjid from pg_catalog.pg_shdepend s
                    where s.dbid = (select b.oid from pg_catalog.pg_database b where b.datname = current_database())
                      and s.classid = d.classid and s.objid = d.objid and s.objsubid = 0 and s.deptype = 'o'), 10) as owner
    from schema n
    join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_namespace'::regclass and d.refobjid = n.oid and d.deptype = 'n'
    cross join lateral pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) i),
owner as (
  select r.oid from pg_catalog.pg_roles r where r.rolname = 'windlass_owner'),
-- Whose objects the caller may read and take over: after a restore without our roles, everything belongs to whoever restored it.
trusted as (
  select r.oid from owner r
  union select r.oid from pg_catalog.pg_roles r where r.rolname = current_user or r.rolsuper)
select pg_catalog.pg_get_userbyid(n.owner)::text as owner,
       n.owner in (select r.oid from owner r) as is_ours,
       pg_catalog.pg_get_userbyid(n.owner) = current_user as is_callers,
       n.owner in (select r.oid from trusted r)
         and exists (select from objects o join pg_catalog.pg_class c on c.oid = o.oid and c.relkind = 'r'
                      where o.identity = 'windlass.migration' and o.owner in (select r.oid from trusted r)) as is_installed,
       array(select o.statement from objects o
              where o.owner not in (select r.oid from owner r)
                and not exists (select from pg_catalog.pg_roles r
                                 where r.oid = o.owner and (r.rolsuper or r.rolname = current_user and r.oid = n.owner))
              order by 1 limit 20) as foreign_objects,
       array(select o.statement from objects o
              where not (o.identity in ('windlass.migration', 'windlass.installed_functions')
                         and (o.owner in (select r.oid from owner r) or pg_catalog.pg_get_userbyid(o.owner) = current_user))
              order by 1 limit 20) as objects
  from schema n
