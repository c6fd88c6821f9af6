-- Row-level security and read privileges on every table. Runs with every change of a function, so it changes only what
-- differs.
--
-- Every write goes through a function that runs as the owner, so no other role can write a table. Applications, readers
-- and the server read the rows of the current tenant (row-level security). The admin reads the rows of all
-- tenants. An operator reads the rows of the current tenant, or of all tenants if there is none. Workers and keepers
-- cannot read any table.

-- Whether the role is one of windlass. What a site grants to roles of its own is not changed, whatever they are called.
create or replace function windlass.is_role_of_ours(name name) returns boolean
language sql immutable
return name in ('windlass_owner', 'windlass_migrator', 'windlass_app', 'windlass_worker', 'windlass_keeper', 'windlass_server',
  'windlass_admin', 'windlass_operator', 'windlass_reader', 'windlass_puller');

do $$
declare
  change text;
begin
  for change in
    with wanted as (
      select 'windlass_' || r.role as role
        from unnest(array['migrator', 'app', 'worker', 'keeper', 'server', 'admin', 'operator', 'reader', 'puller']) r (role)),
    found as (
      select coalesce(r.rolname::text, 'public') as role, g.privilege_type
        from pg_namespace n cross join lateral aclexplode(n.nspacl) g left join pg_roles r on r.oid = g.grantee
       where n.nspname = 'windlass' and g.grantee <> n.nspowner and (g.grantee = 0 or windlass.is_role_of_ours(r.rolname)))
    select format('revoke %s on schema windlass from %s', f.privilege_type, f.role) from found f
     where f.privilege_type <> 'USAGE' or not exists (select from wanted w where w.role = f.role)
    union all
    select format('grant usage on schema windlass to %I', w.role) from wanted w
     where not exists (select from found f where f.role = w.role and f.privilege_type = 'USAGE')
  loop
    execute change;
  end loop;
end
$$;

do $$
declare
  name text;
begin
  -- Each is guarded when it is created, but a restore into a server without our roles loses policies.
  for name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = any (array(select format('windlass.%I', p)::regclass from unnest(windlass.partitioned()) p))
  loop
    perform windlass.guard_table(name);
  end loop;
  foreach name in array array['retiring', 'retiring_change', 'retiring_gone', 'retiring_tenant', 'retiring_back',
      'partition_look', 'partition_rate', 'leftover_mark', 'key_lock', 'audit_seals', 'audit_sealer', 'audit_heads',
      'users', 'members',
      'invitations', 'password_resets', 'api_tokens', 'sessions', 'request_keys', 'problem', 'prune_passed', 'prune_again', 'dedupe',
      'idempotency', 'ordering', 'cancel_request', 'job_workers', 'drain_request', 'gate'] loop
    perform windlass.guard_table(name);
  end loop;
  foreach name in array array['job', 'line', 'live', 'deferred', 'blocked', 'dependency', 'progress', 'history', 'job_log', 'tally',
      'total', 'lane', 'job_triggers', 'pull_lease', 'fire', 'event', 'event_pending', 'event_dispatch', 'retention', 'legal_hold',
      'purge_wait', 'activity', 'audit', 'expiry', 'unblock_due'] loop
    perform windlass.guard_table(name, 'tenant_id');
  end loop;
  perform windlass.guard_table('tenants', 'id');
  perform windlass.guard_types();
end
$$;

-- Workers belong to the installation: every tenant sees the workers that may run its jobs, because /why lists them. A
-- pull worker with a token of a tenant is named NAME@TENANT, and only that tenant sees it.
do $$
declare
  name text;
begin
  foreach name in array array['job_workers', 'drain_request'] loop
    if not exists (select from pg_policy p
                    where p.polrelid = format('windlass.%I', name)::regclass and p.polname = 'tenant_reads_workers') then
      execute format($policy$
        create policy tenant_reads_workers on windlass.%1$I for select to windlass_app, windlass_reader, windlass_server
          using (worker_id !~ '@[0-9a-f-]{36}$' or right(worker_id, 36) = (select windlass.current_tenant())::text);
        create policy admin_reads on windlass.%1$I for select to windlass_admin using (true)$policy$, name);
    end if;
    if not exists (select from pg_policy p where p.polrelid = format('windlass.%I', name)::regclass and p.polname = 'operator_reads') then
      execute format($policy$
        create policy operator_reads on windlass.%I for select to windlass_operator
          using ((select windlass.current_tenant()) is null or worker_id !~ '@[0-9a-f-]{36}$'
                 or right(worker_id, 36) = (select windlass.current_tenant())::text)$policy$, name);
    end if;
  end loop;
end
$$;

do $$
declare
  readers constant text[] := array['windlass_app', 'windlass_reader', 'windlass_server', 'windlass_admin', 'windlass_operator'];
  everyone constant text[] := readers || array['windlass_worker', 'windlass_keeper', 'windlass_puller'];
  change record;
begin
  for change in
    with wanted as (
      select t.relation, r.role
        from (values
          (array['job', 'line', 'queued', 'running', 'deferred', 'blocked', 'dependency', 'progress', 'history', 'tally', 'total', 'lane',
                 'job_definitions', 'job_triggers', 'queues', 'job_workers', 'drain_request', 'tenants', 'job_log', 'jobs',
                 'job_attempts', 'job_counts', 'fire', 'event', 'event_pending', 'event_dispatch', 'retention', 'legal_hold', 'purge_wait',
                 'activity'],
           readers),
          (array['audit'], array['windlass_server', 'windlass_admin', 'windlass_operator']),
          (array['expiry', 'unblock_due'], array['windlass_operator']), -- for the doctor
          (array['migration', 'installed_functions'], everyone)) g (relations, roles)
        cross join lateral unnest(g.relations) t (relation)
        cross join lateral unnest(g.roles) r (role)),
    found as (
      select c.relname::text as relation, coalesce(r.rolname::text, 'public') as role, g.privilege_type, c.relkind
        from pg_class c
        cross join lateral aclexplode(c.relacl) g
        left join pg_roles r on r.oid = g.grantee
       where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v', 'S') and g.grantee <> c.relowner
         and (g.grantee = 0 or windlass.is_role_of_ours(r.rolname)))
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

-- Of a running job everything but its token: together with the attempt it is the fence, by which a worker's write is accepted.
do $$
declare
  readers constant text[] := array['windlass_app', 'windlass_reader', 'windlass_server', 'windlass_admin', 'windlass_operator'];
  change record;
begin
  for change in
    select case when g.is_wanted then 'grant' else 'revoke' end || format(' select (%I) on windlass.%I ', a.attname, c.relname)
             || case when g.is_wanted then 'to ' else 'from ' end || r.role as statement
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      cross join unnest(readers) r (role)
      cross join lateral (select a.attname <> 'token' as is_wanted,
        exists (select from aclexplode(a.attacl) x where x.grantee = r.role::regrole and x.privilege_type = 'SELECT') as is_there) g
     where c.oid in ('windlass.live'::regclass, 'windlass.pull_lease'::regclass) and g.is_wanted <> g.is_there
  loop
    execute change.statement;
  end loop;
end
$$;
