-- Who may do what in the control plane; runs after policies.sql, which took everything back. The admin's role is for requests
-- of super-admins: it reads what the api reads, of every tenant, and what reaches across tenants or makes them is its own. Each
-- function of the api's names its tenant and refuses another than the one in force.
do $$
declare
  name text;
begin
  foreach name in array array['audit_seals', 'users', 'members', 'api_tokens', 'sessions', 'request_keys'] loop
    perform windlass.guard_table(name);
  end loop;
  for name in select p.tablename from pg_policies p where p.schemaname = 'windlass' and p.policyname = 'tenant_reads' loop
    execute format('drop policy if exists admin_reads on windlass.%I', name);
    execute format('create policy admin_reads on windlass.%I for select to windlass_admin using (true)', name);
  end loop;
  for name in select c.relname from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v')
      and has_table_privilege('windlass_api', c.oid, 'select') loop
    execute format('grant select on windlass.%I to windlass_admin', name);
  end loop;
end
$$;

grant execute on function windlass.find_token, windlass.create_token, windlass.tokens_of, windlass.revoke_token, windlass.retire_token,
  windlass.record_audit, windlass.remember_request, windlass.answer_request, windlass.shown_definition,
  windlass.put_member, windlass.members_of, windlass.remove_member,
  windlass.create_session, windlass.find_session, windlass.choose_tenant, windlass.end_session, windlass.find_user
  to windlass_api;
-- Whatever the api may call the admin may call.
do $$
declare
  callable text;
begin
  for callable in select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'windlass'::regnamespace
      and p.prokind = 'f' and has_function_privilege('windlass_api', p.oid, 'execute') loop
    execute format('grant execute on function %s to windlass_admin', callable);
  end loop;
end
$$;
grant execute on function windlass.verify_audit, windlass.create_definition, windlass.change_definition,
  windlass.create_tenant, windlass.change_tenant, windlass.mark_tenant_deleting, windlass.shown_tenant, windlass.put_user to windlass_admin;
grant execute on function windlass.seal_audit, windlass.purge_deleted_tenants to windlass_worker;
