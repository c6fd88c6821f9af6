-- Who may read which table. Run with every change of a function, so it leaves alone what is as it should be.
--
-- Everything that moves a job is a function that runs as the owner, so no other role can write a table. An application, a reader
-- and the server read the rows of the tenant in force (row-level security, forced); the admin those of every tenant; an operator those of
-- the tenant in force, or of every tenant while none is; workers and keepers read no table at all.
do $$
declare
  name text;
begin
  foreach name in array array['job_default', 'history_default', 'audit_seals', 'audit_sealer', 'audit_heads', 'users', 'members',
      'invitations', 'password_resets', 'api_tokens', 'sessions', 'request_keys', 'trouble', 'prune_passed', 'prune_again', 'dedupe',
      'idempotency', 'ordering', 'cancel_request', 'job_workers', 'gate'] loop
    perform windlass.guard_table(name);
  end loop;
  foreach name in array array['job', 'line', 'live', 'deferred', 'blocked', 'dependency', 'progress', 'history', 'job_log', 'tally',
      'total', 'lane', 'job_triggers', 'remote_lease', 'fire', 'event', 'event_pending', 'event_dispatch', 'retention', 'legal_hold',
      'purge_wait', 'activity', 'audit', 'expiry', 'unblock_due'] loop
    perform windlass.guard_table(name, 'tenant_id');
  end loop;
  perform windlass.guard_table('tenants', 'id');
end
$$;

-- Workers belong to the installation: every tenant sees those that may run its jobs, because /why names them. Those that pull with a
-- tenant's own credential are called NAME@TENANT and are that tenant's alone.
do $$
begin
  if not exists (select from pg_policy p where p.polrelid = 'windlass.job_workers'::regclass and p.polname = 'tenant_reads_workers') then
    create policy tenant_reads_workers on windlass.job_workers for select to windlass_app, windlass_reader, windlass_server
      using (worker_id !~ '@[0-9a-f-]{36}$' or right(worker_id, 36) = (select windlass.current_tenant())::text);
    create policy admin_reads on windlass.job_workers for select to windlass_admin using (true);
  end if;
  if not exists (select from pg_policy p where p.polrelid = 'windlass.job_workers'::regclass and p.polname = 'operator_reads') then
    create policy operator_reads on windlass.job_workers for select to windlass_operator
      using ((select windlass.current_tenant()) is null or worker_id !~ '@[0-9a-f-]{36}$'
             or right(worker_id, 36) = (select windlass.current_tenant())::text);
  end if;
end
$$;

do $$
declare
  readers constant text[] := array['windlass_app', 'windlass_reader', 'windlass_server', 'windlass_admin', 'windlass_operator'];
  everyone constant text[] := readers || array['windlass_worker', 'windlass_keeper'];
  change record;
begin
  for change in
    with wanted as (
      select t.relation, r.role
        from (values
          (array['job', 'line', 'standing', 'live', 'deferred', 'blocked', 'dependency', 'progress', 'history', 'tally', 'total', 'lane',
                 'job_definitions', 'job_triggers', 'queues', 'job_workers', 'tenants', 'job_log', 'jobs', 'job_attempts', 'job_counts',
                 'remote_lease', 'fire', 'event', 'event_pending', 'event_dispatch', 'retention', 'legal_hold', 'purge_wait', 'activity'],
           readers),
          (array['audit'], array['windlass_server', 'windlass_admin', 'windlass_operator']),
          (array['expiry', 'unblock_due'], array['windlass_operator']), -- the doctor's
          (array['migration', 'installed_functions'], everyone)) g (relations, roles)
        cross join lateral unnest(g.relations) t (relation)
        cross join lateral unnest(g.roles) r (role)),
    found as (
      select c.relname::text as relation, coalesce(r.rolname::text, 'public') as role, g.privilege_type, c.relkind
        from pg_class c
        cross join lateral aclexplode(c.relacl) g
        left join pg_roles r on r.oid = g.grantee
       where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v', 'S') and g.grantee <> c.relowner
         and (g.grantee = 0 or r.rolname like 'windlass\_%'))
    select format('revoke %s on %s windlass.%I from %s', f.privilege_type, case f.relkind when 'S' then 'sequence' else 'table' end,
             f.relation, f.role) as statement
      from found f
     where f.privilege_type <> 'SELECT' or not exists (select from wanted w where w.relation = f.relation and w.role = f.role)
    union all
    select format('grant select on windlass.%I to %I', w.relation, w.role) from wanted w
     where not exists (select from found f where f.relation = w.relation and f.role = w.role and f.privilege_type = 'SELECT')
  loop
    execute change.statement;
  end loop;
end
$$;
