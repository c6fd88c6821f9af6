-- What the schema consists of, one row per object: who owns it, what protects it, and the privileges of our roles and of everybody.
-- Compared with the list of a fresh installation (store/catalog.txt), which has the same rows on every supported server. Privileges of
-- other roles are not ours to judge. All partitions by time have one name, and so have the tables that are about to replace one. Reads
-- only the catalog, which every login may read, so it also works for a login without any privilege. take: the statement that makes
-- windlass_owner the owner of an object of another role. remove: the statement that removes what should not be there, such as a policy.
-- Not every change can be found: who may change the objects may also change what is compared here.
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
  select c.oid, c.relname, c.relkind, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity, c.reloptions, c.relpersistence,
         c.relispartition or c.relname ~ '_n[0-9]+$' as is_part,
         regexp_replace(c.relname::text, '^(job|history|progress|job_log)_[0-9]{8}(_[0-9]{4})?(_n[0-9]+)?$', E'\\1_part') as name
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
       case when c.relpersistence <> 'p' then 'unlogged, ' else '' end
         || case when c.relrowsecurity then 'row security, ' else '' end || case when c.relforcerowsecurity then 'forced, ' else '' end
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
         case p.provolatile when 'i' then 'immutable' when 's' then 'stable' end, case when p.proleakproof then 'leakproof' end,
         array_to_string(p.proconfig, ', '),
         left(encode(sha256(convert_to(p.prosrc || coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), ''), 'UTF8')), 'hex'), 16), g.list),
       format('alter routine windlass.%I(%s) owner to windlass_owner', p.proname,
         pg_catalog.pg_get_function_identity_arguments(p.oid)), null
  from of_schema n cross join pinned join pg_catalog.pg_proc p on p.pronamespace = n.oid
  cross join lateral (
    select coalesce(string_agg(x.role, ', ' order by x.role collate "C"), 'no grants') as list from (
      select case a.grantee when 0 then 'public' else pg_catalog.pg_get_userbyid(a.grantee)::text end as role
        from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a where a.grantee <> p.proowner) x
     where x.role in (select r.name from roles r)) g
union all
select 'trigger', t.tgname || ' on ' || c.name, t.tgname || ' on ' || c.relname, '',
       concat_ws(', ', f.proname, t.tgtype, case when t.tgenabled <> 'O' then 'not enabled' end), null,
       format('drop trigger %I on windlass.%I', t.tgname, c.relname)
  from relations c join pg_catalog.pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal and t.tgparentid = 0
  join pg_catalog.pg_proc f on f.oid = t.tgfoid
 where t.tgname <> 'note_change' -- of a partition that is being replaced
union all
select 'rule', r.rulename || ' on ' || c.name, r.rulename || ' on ' || c.relname, '', 'rule', null,
       format('drop rule %I on windlass.%I', r.rulename, c.relname)
  from relations c join pg_catalog.pg_rewrite r on r.ev_class = c.oid and r.rulename <> '_RETURN'
union all
-- A restore parses the condition again, which removes some of its parentheses.
select 'constraint', k.conname || ' on ' || c.name, k.conname || ' on ' || c.relname, '',
       left(encode(sha256(convert_to(translate(pg_catalog.pg_get_constraintdef(k.oid), '() ', ''), 'UTF8')), 'hex'), 16), null, null
  from relations c cross join pinned join pg_catalog.pg_constraint k on k.conrelid = c.oid and k.contype in ('c', 'p', 'u', 'x', 'f')
 where not c.is_part
union all
select 'index', i.relname::text, i.relname::text, '', concat_ws(', ', case when x.indisunique then 'unique' end,
         case when not x.indisvalid then 'not valid' end, regexp_replace(pg_catalog.pg_get_indexdef(x.indexrelid), '^.* USING ', '')),
       null, null
  from relations c cross join pinned join pg_catalog.pg_index x on x.indrelid = c.oid join pg_catalog.pg_class i on i.oid = x.indexrelid
 where not c.is_part
union all
select 'column', c.name || '.' || a.attname, c.relname || '.' || a.attname, '',
       concat_ws(', ', pg_catalog.format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
         'identity ' || nullif(a.attidentity::text, ''), pg_catalog.pg_get_expr(d.adbin, d.adrelid)), null, null
  from relations c cross join pinned join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_catalog.pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
 where not c.is_part and c.relkind in ('r', 'p')
union all
select 'role', r.rolname::text, r.rolname::text, '',
       concat_ws(', ', case when r.rolsuper then 'superuser' end, case when r.rolbypassrls then 'bypasses row security' end,
         case when r.rolcreaterole then 'creates roles' end, case when r.rolcreatedb then 'creates databases' end,
         case when r.rolreplication then 'replication' end, case when r.rolcanlogin then 'can log in' end,
         case when r.rolinherit then 'inherits' else 'does not inherit' end), null, null
  from pg_catalog.pg_roles r where r.rolname in (select n.name from roles n)
union all
select distinct 'membership', m.rolname || ' in ' || r.rolname, m.rolname || ' in ' || r.rolname, '', 'member', null, null
  from pg_catalog.pg_auth_members a join pg_catalog.pg_roles r on r.oid = a.roleid join pg_catalog.pg_roles m on m.oid = a.member
 where m.rolname in (select n.name from roles n)
union all
-- What is granted to none of our roles is granted to nobody; and nobody else may create objects in the schema.
select distinct 'privilege', x.role || ' on ' || x.object, x.privilege || ' of ' || x.role || ' on ' || x.object, '', '', null, null
  from (
    select c.relname::text as object, a.grantee, lower(a.privilege_type) as privilege, pg_catalog.pg_get_userbyid(a.grantee)::text as role
      from relations c cross join lateral pg_catalog.aclexplode(c.relacl) a
     where a.grantee <> c.relowner and not exists (
       select from pg_catalog.aclexplode(c.relacl) o
        where o.grantee <> c.relowner and pg_catalog.pg_get_userbyid(o.grantee) in (select n.name from roles n))
    union all
    select p.proname || '()', a.grantee, 'execute', pg_catalog.pg_get_userbyid(a.grantee)
      from of_schema n join pg_catalog.pg_proc p on p.pronamespace = n.oid cross join lateral pg_catalog.aclexplode(p.proacl) a
     where a.grantee <> p.proowner and not exists (
       select from pg_catalog.aclexplode(p.proacl) o
        where o.grantee <> p.proowner and pg_catalog.pg_get_userbyid(o.grantee) in (select n.name from roles n))
    union all
    select 'schema windlass', a.grantee, 'create', pg_catalog.pg_get_userbyid(a.grantee)
      from of_schema n cross join lateral pg_catalog.aclexplode(n.nspacl) a
     where a.grantee <> n.nspowner and a.privilege_type = 'CREATE') x
 where x.grantee <> 0 and x.role not in (select n.name from roles n)
 order by 1, 2, 3
