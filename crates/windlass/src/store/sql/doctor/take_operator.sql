-- Takes the operator's role if the login may, to see the rows of every tenant. A superuser sees them anyway. From PostgreSQL 16 on, who
-- created the roles is a member that may not take them.
select set_config('role', 'windlass_operator', false)
  from pg_catalog.pg_roles r join pg_catalog.pg_roles o on o.rolname = 'windlass_operator'
 where r.rolname = session_user and not r.rolsuper
   and pg_has_role(r.oid, o.oid, case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)
