-- Takes the operator's role if the login may, to see the rows of every tenant. A superuser sees them anyway.
select set_config('role', 'windlass_operator', false)
  from pg_catalog.pg_roles r
 where r.rolname = session_user and not r.rolsuper and pg_has_role(r.rolname, 'windlass_operator', 'member')
