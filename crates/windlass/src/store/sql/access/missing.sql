-- The roles of $1 that this login cannot act as. Runs once, when a process starts.
select r.role, session_user::text as login
  from unnest($1::text[]) r (role)
 cross join (select case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end) k (kind)
 where case r.role
         when 'windlass_server' then not pg_has_role('windlass_server', k.kind) or not pg_has_role('windlass_admin', k.kind)
         when 'windlass_operator' then not pg_has_role('windlass_operator', k.kind)
         else exists (select from pg_proc p
                       where p.pronamespace = 'windlass'::regnamespace
                         and has_function_privilege(r.role, p.oid, 'execute') and not has_function_privilege(p.oid, 'execute'))
       end
