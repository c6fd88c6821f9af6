-- Objects outside of our schema that depend on objects in it, as the statements that drop them: a table, a partition or a
-- function that something depends on cannot be dropped when it is old. Every login that can use the schema can create such
-- an object without any other privilege. Views of ours and functions that applications call are meant to be used, and are
-- not dropped, so what depends on them is not listed. Reads the catalog only.
-- A view depends through its rule, a default, a constraint, a policy or a trigger belongs to a table.
with ours as (
  select 'pg_catalog.pg_class'::regclass as class, c.oid, 'windlass.' || c.relname as name
    from pg_catalog.pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind <> 'v'
  union all
  select 'pg_catalog.pg_type'::regclass, t.oid, 'windlass.' || t.typname
    from pg_catalog.pg_type t where t.typnamespace = 'windlass'::regnamespace
     and not exists (select from pg_catalog.pg_class c where c.oid = t.typrelid and c.relkind = 'v')
  union all
  select 'pg_catalog.pg_proc'::regclass, p.oid, 'windlass.' || p.proname || '()'
    from pg_catalog.pg_proc p where p.pronamespace = 'windlass'::regnamespace
     and not exists (select from pg_catalog.aclexplode(p.proacl) a join pg_catalog.pg_roles r on r.oid = a.grantee
                      where r.rolname in ('windlass_app', 'windlass_reader', 'windlass_puller'))),
used as (
  select o.name, coalesce(r.oid, x.oid, k.oid, y.oid, g.oid, d.objid) as object,
         case when coalesce(r.oid, x.oid, k.oid, y.oid, g.oid) is null then d.classid else 'pg_catalog.pg_class'::regclass end as class
    from ours o
    join pg_catalog.pg_depend d on d.refclassid = o.class and d.refobjid = o.oid and d.deptype = 'n'
    left join lateral (select w.ev_class as oid from pg_catalog.pg_rewrite w
                        where d.classid = 'pg_catalog.pg_rewrite'::regclass and w.oid = d.objid) r on true
    left join lateral (select w.adrelid as oid from pg_catalog.pg_attrdef w
                        where d.classid = 'pg_catalog.pg_attrdef'::regclass and w.oid = d.objid) x on true
    left join lateral (select w.conrelid as oid from pg_catalog.pg_constraint w
                        where d.classid = 'pg_catalog.pg_constraint'::regclass and w.oid = d.objid and w.conrelid <> 0) k on true
    left join lateral (select w.polrelid as oid from pg_catalog.pg_policy w
                        where d.classid = 'pg_catalog.pg_policy'::regclass and w.oid = d.objid) y on true
    left join lateral (select w.tgrelid as oid from pg_catalog.pg_trigger w
                        where d.classid = 'pg_catalog.pg_trigger'::regclass and w.oid = d.objid) g on true)
select distinct format('%s %s depends on %s', i.type, i.identity, u.name) as dependent
  from used u cross join lateral pg_catalog.pg_identify_object(u.class, u.object, 0) i
 where i.schema is distinct from 'windlass'
   and not (u.class = 'pg_catalog.pg_class'::regclass and exists (
     select from pg_catalog.pg_class c where c.oid = u.object and c.relnamespace = 'windlass'::regnamespace))
 order by 1 limit 21
