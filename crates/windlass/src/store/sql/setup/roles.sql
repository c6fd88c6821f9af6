-- What is missing of the roles $1 and the memberships of $2 (roles) in $3 (members), and what the caller may do about it. Reads only the
-- catalog, which every login may read. From PostgreSQL 16 on ($4), a member may take a role only with the option SET, and only who
-- administers a role may grant it.
with me as (
  select r.oid, r.rolname, r.rolsuper, r.rolcreaterole from pg_catalog.pg_roles r where r.rolname = current_user),
wanted as (
  select w.role, w.member, r.oid as role_id, m.oid as member_id
    from unnest($2::text[], $3::text[]) w (role, member)
    left join pg_catalog.pg_roles r on r.rolname = w.role left join pg_catalog.pg_roles m on m.rolname = w.member)
select me.rolname::text as login, current_database()::text as database, me.rolsuper as is_superuser,
       me.rolcreaterole as may_create_roles, pg_catalog.has_database_privilege(current_database(), 'create') as may_create_schemas,
       exists (select from pg_catalog.pg_namespace n where n.nspname = 'windlass') as has_schema,
       array(select w.role from unnest($1::text[]) with ordinality w (role, place)
              where not exists (select from pg_catalog.pg_roles r where r.rolname = w.role) order by w.place) as missing_roles,
       array(select w.role || ' ' || w.member from wanted w
              where coalesce(not pg_catalog.pg_has_role(w.member_id, w.role_id, case when $4 then 'SET' else 'MEMBER' end), true))
         as missing_memberships,
       coalesce((select pg_catalog.pg_has_role(me.oid, r.oid, case when $4 then 'SET' else 'MEMBER' end)
                   from pg_catalog.pg_roles r where r.rolname = 'windlass_owner'), false) as may_own,
       array(select r.rolname::text from pg_catalog.pg_roles r
              where r.rolname = any ($1) and pg_catalog.pg_has_role(me.oid, r.oid, 'MEMBER WITH ADMIN OPTION')) as administers,
       array(select distinct a.rolname::text
               from pg_catalog.pg_roles r join pg_catalog.pg_auth_members m on m.roleid = r.oid and m.admin_option
               join pg_catalog.pg_roles a on a.oid = m.member
              where r.rolname = 'windlass_migrator' and not a.rolsuper order by 1) as administrators
  from me
