-- What the schema consists of, one row per object: who owns it, what protects it, and the privileges of our roles and of everybody.
-- Compared with the list of a fresh installation (store/catalog.txt), which has the same rows on every supported server. Privileges of
-- other roles are not ours to judge. All partitions by time have one name, and so have the tables that are about to replace one. Reads
-- only the catalog, which every login may read, so it also works for a login without any privilege. take: the statement that makes
-- windlass_owner the owner of an object of another role. remove: the statement that removes a policy or a privilege which should not be
-- there.
-- pinned: constants in bodies and views are printed by the settings of the session, so these are set for this statement. A row needs it
-- before its texts are printed.
with pinned as materialized (
  select pg_catalog.set_config('timezone', 'UTC', true), pg_catalog.set_config('datestyle', 'ISO, MDY', true),
         pg_catalog.set_config('intervalstyle', 'postgres', true), pg_catalog.set_config('extra_float_digits', '1', true),
         pg_catalog.set_config('bytea_output', 'hex', true), pg_catalog.set_config('quote_all_identifiers', 'off', true),
         pg_catalog.set_config('standard_conforming_strings', 'on', true)),
roles (name) as (
  select unnest(array['public', 'windlass_owner', 'windlass_migrator', 'windlass_app', 'windlass_worker', 'windlass_keeper',
    'windlass_server', 'windlass_admin', 'windlass_operator', 'windlass_reader', 'windlass_puller'])),
of_schema as (
  select n.oid, n.nspowner, n.nspacl from pg_catalog.pg_namespace n where n.nspname = 'windlass'),
relations as (
  select c.oid, c.relname, c.relkind, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity, c.reloptions,
         regexp_replace(c.relname::text, '^(job|history|progress|job_log)_[0-9]{8}(_[0-9]{4})?(_n[0-9]+)?$', '\1_part') as name
    from of_schema n join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'S'))
select 'schema' as kind, 'windlass' as name, 'windlass' as object, pg_catalog.pg_get_userbyid(n.nspowner)::text as owner,
       g.list as state, 'alter schema windlass owner to windlass_owner' as take, null as remove
  from of_schema n
  cross join lateral (
    select coalesce(string_agg(x.role || ' ' || x.privileges, ', ' order by x.role collate "C"), 'no grants') as list from (
      select case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end as role,
             lower(string_agg(distinct a.privilege_type, '+' order by a.privilege_type)) as privileges
        from pg_catalog.aclexplode(n.nspacl) a where a.grantee <> n.nspowner group by 1) x
     where x.role in (select r.name from roles r)) g
union all
select case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, c.name, c.relname::text,
       pg_catalog.pg_get_userbyid(c.relowner)::text,
       case when c.relrowsecurity then 'row security, ' else '' end || case when c.relforcerowsecurity then 'forced, ' else '' end
         || case when c.relkind = 'v' then coalesce(array_to_string(c.reloptions, ', '), 'no options') || ', '
                 || left(encode(sha256(convert_to(pg_catalog.pg_get_viewdef(c.oid), 'UTF8')), 'hex'), 16) || ', ' else '' end
         || g.list,
       case when c.relkind <> 'S' or not exists (select from pg_catalog.pg_depend d
                where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i'))
            then format('alter table windlass.%I owner to windlass_owner', c.relname) end, null
  from relations c cross join pinned
  cross join lateral (
    select coalesce(string_agg(x.role || ' ' || x.privileges, ', ' order by x.role collate "C"), 'no grants') as list from (
      select case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end as role,
             lower(string_agg(distinct a.privilege_type, '+' order by a.privilege_type)) as privileges
        from pg_catalog.aclexplode(c.relacl) a where a.grantee <> c.relowner group by 1) x
     where x.role in (select r.name from roles r)) g
union all
select 'columns', a.role || ' of ' || c.name, c.relname::text, '',
       a.privilege || ' ' || string_agg(t.attname::text, ', ' order by t.attname collate "C"), null,
       format('revoke all (%s) on windlass.%I from %s', string_agg(distinct quote_ident(t.attname), ', '), c.relname,
         case a.role when 'public' then 'public' else quote_ident(a.role) end)
  from relations c join pg_catalog.pg_attribute t on t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
  cross join lateral (
    select case x.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(x.grantee)::text end as role,
           lower(x.privilege_type) as privilege
      from pg_catalog.aclexplode(t.attacl) x where x.grantee <> c.relowner) a
 where a.role in (select r.name from roles r)
 group by c.name, c.relname, a.role, a.privilege
union all
select 'policy', p.polname || ' on ' || c.name, p.polname || ' on ' || c.relname, '',
       format('%s %s to %s using (%s) with check (%s)', case when p.polpermissive then 'permissive' else 'restrictive' end,
         case p.polcmd when 'r' then 'select' when '*' then 'all' else p.polcmd::text end,
         array_to_string(array(select case r when 0 then 'public' else pg_catalog.pg_get_userbyid(r)::text end
                                 from unnest(p.polroles) r order by 1), ', '),
         coalesce(pg_catalog.pg_get_expr(p.polqual, p.polrelid), ''), coalesce(pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid), '')),
       null, format('drop policy %I on windlass.%I', p.polname, c.relname)
  from relations c join pg_catalog.pg_policy p on p.polrelid = c.oid
union all
select 'function', p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')',
       p.proname::text, pg_catalog.pg_get_userbyid(p.proowner)::text,
       concat_ws(', ', pg_catalog.pg_get_function_result(p.oid), case when p.prosecdef then 'as its owner' end,
         case p.provolatile when 'i' then 'immutable' when 's' then 'stable' end, array_to_string(p.proconfig, ', '),
         left(encode(sha256(convert_to(p.prosrc || coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), ''), 'UTF8')), 'hex'), 16), g.list),
       format('alter routine windlass.%I(%s) owner to windlass_owner', p.proname,
         pg_catalog.pg_get_function_identity_arguments(p.oid)), null
  from of_schema n cross join pinned join pg_catalog.pg_proc p on p.pronamespace = n.oid
  cross join lateral (
    select coalesce(string_agg(x.role, ', ' order by x.role collate "C"), 'no grants') as list from (
      select case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end as role
        from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a where a.grantee <> p.proowner) x
     where x.role in (select r.name from roles r)) g
 order by 1, 2, 3
