-- Checks every blocked job, a few at a time: a safety net that finds what unblock_new and unblock_rest miss.
create or replace function windlass.unblock_old(most integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  mark record;
  slice record;
  free record;
  decided integer := 0;
begin
  select m.sweep_tenant, m.sweep_job into mark from windlass.unblock_mark m for update skip locked;
  if not found or not exists (select from windlass.blocked) then
    return 0;
  end if;
  select count(*) as n, array_agg(l.tenant_id) as tenants, array_agg(l.job_id) as jobs into slice from (
    select b.tenant_id, b.job_id from windlass.blocked b
     where (b.tenant_id, b.job_id) > (mark.sweep_tenant, mark.sweep_job) order by b.tenant_id, b.job_id limit most) l;
  select coalesce(sum(windlass.unblock_or_leave(t.tenant_id, t.needs, t.jobs)), 0) into decided from (
    select l.tenant_id, array_agg(distinct d.needs_job_id) as needs, array_agg(distinct l.job) as jobs
      from unnest(slice.tenants, slice.jobs) l (tenant_id, job)
      join windlass.dependency d on d.tenant_id = l.tenant_id and d.job_id = l.job
     group by l.tenant_id order by l.tenant_id) t;
  for free in
    select l.tenant_id, array_agg(l.job) as jobs from unnest(slice.tenants, slice.jobs) l (tenant_id, job)
      join windlass.blocked b on b.tenant_id = l.tenant_id and b.job_id = l.job
     where not exists (select from windlass.dependency d where d.tenant_id = l.tenant_id and d.job_id = l.job)
     group by l.tenant_id order by l.tenant_id
  loop
    begin
      decided := decided + windlass.start_free(free.tenant_id, free.jobs);
    exception when lock_not_available or deadlock_detected then
      null; -- tried again by the next sweep
    when others then
      perform windlass.raise_server_problem(sqlstate, sqlerrm);
      perform windlass.note_problem('unblock', free.tenant_id, free.jobs[1]::text,
        'jobs without dependencies cannot be unblocked: ' || sqlerrm);
    end;
  end loop;
  mark.sweep_tenant := case when slice.n < most then '00000000-0000-0000-0000-000000000000' else slice.tenants[most] end;
  mark.sweep_job := case when slice.n < most then '00000000-0000-0000-0000-000000000000' else slice.jobs[most] end;
  update windlass.unblock_mark m set sweep_tenant = mark.sweep_tenant, sweep_job = mark.sweep_job
   where (m.sweep_tenant, m.sweep_job) <> (mark.sweep_tenant, mark.sweep_job);
  return decided;
end
$$;

-- While unblock_new has a backlog, which is in the order of transactions and can be that of a single tenant: the newest
-- blocked jobs of each tenant, some tenants in each round. A dependency that was missed is new.
-- Index: blocked's primary key, one probe per tenant.
create or replace function windlass.unblock_recent(most_tenants integer, most_jobs integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  turn uuid;
  first uuid;
  found_tenant uuid;
  jobs uuid[];
  decided integer := 0;
begin
  select m.recent_tenant into turn from windlass.unblock_mark m for update skip locked;
  if not found then
    return 0;
  end if;
  for n in 1 .. most_tenants loop
    select b.tenant_id into found_tenant from windlass.blocked b where b.tenant_id > turn order by b.tenant_id limit 1;
    if not found then
      select b.tenant_id into found_tenant from windlass.blocked b order by b.tenant_id limit 1;
    end if;
    exit when not found or found_tenant = first;
    first := coalesce(first, found_tenant);
    turn := found_tenant;
    jobs := array(select b.job_id from windlass.blocked b where b.tenant_id = turn order by b.job_id desc limit most_jobs);
    decided := decided + windlass.unblock_or_leave(turn, array(
      select distinct l.needs_job_id from (select d.needs_job_id from windlass.dependency d
        where d.tenant_id = turn and d.job_id = any (jobs) limit 20 * most_jobs) l), jobs);
  end loop;
  update windlass.unblock_mark m set recent_tenant = turn;
  return decided;
end
$$;

-- Starts those of these jobs that are blocked without a dependency, except rows that another transaction has locked.
-- Returns their number.
create or replace function windlass.start_free(tenant uuid, jobs uuid[]) returns integer
language plpgsql
as $$
#variable_conflict use_column
begin
  jobs := array(select b.job_id from windlass.blocked b
    where b.tenant_id = tenant and b.job_id = any (jobs) order by b.job_id for update skip locked);
  jobs := array(select j from unnest(jobs) j
    where not exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = j));
  if jobs <> '{}' then
    perform windlass.start_unblocked(tenant, jobs);
  end if;
  return cardinality(jobs);
end
$$;
