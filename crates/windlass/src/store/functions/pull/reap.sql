-- Applies the decisions of the reaper about jobs of pull workers. Returns the positions that took effect. A worker that
-- left a job is marked as lost until its next request.
-- Lock order: the workers' rows in order, then the leases, as in a heartbeat, and the blocks, skipping locked ones:
-- the jobs of a worker that an open transaction has locked are left for the next round. Each lease is checked again, so
-- a heartbeat either came first (the job is kept) or comes later (the job is gone); settle checks attempt and token
-- again. Waits only briefly for other locks of open transactions: such a job is tried again after two seconds, and after
-- three of them all jobs of the tenant.
create or replace function windlass.pull_reap(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], details jsonb[], out settled integer[], out overruled integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  due record;
  done text;
  left_behind integer[];
  locked integer[];
  waited uuid[] := '{}'; -- the tenant of each job that had to wait too long
  noted uuid[] := '{}';
begin
  if not (windlass.is_list(tenants) and windlass.is_list(jobs) and windlass.is_list(attempts)
      and windlass.is_list(tokens) and windlass.is_list(details)) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed();
  perform windlass.tenants_for(tenants);
  locked := array(
    select w.id from windlass.job_workers w
     where w.id in (select r.worker from unnest(tenants, jobs) i (tenant, job)
                      join windlass.pull_lease r on r.tenant_id = i.tenant and r.job_id = i.job)
     order by w.id for no key update skip locked);
  for due in
    select i.ord::integer as ord, r.worker, r.times_out_at > r.expires_at as is_stale
      from unnest(tenants, jobs, attempts, tokens) with ordinality i (tenant, job, attempt, token, ord)
      join windlass.pull_lease r on r.tenant_id = i.tenant and r.job_id = i.job and r.attempt = i.attempt and r.token = i.token
      join windlass.live l on l.tenant_id = i.tenant and l.job_id = i.job and l.attempt = i.attempt and l.token = i.token
     where r.expires_at <= clock_timestamp()
       and (r.worker = any (locked) or not exists (select from windlass.job_workers w where w.id = r.worker))
     order by r.tenant_id, r.job_id
       for update of r, l skip locked
  loop
    continue when cardinality(array_positions(waited, tenants[due.ord])) >= 3;
    begin
      done := windlass.pull_settle(tenants[due.ord], jobs[due.ord], attempts[due.ord], tokens[due.ord], details[due.ord]);
    exception when lock_not_available then
      done := 'lost';
      waited := waited || tenants[due.ord];
      noted := noted || windlass.note_waiting('reap', tenants[due.ord], jobs[due.ord], waited, sqlerrm);
    when others then
      perform windlass.raise_server_problem(sqlstate, sqlerrm);
      perform windlass.note_problem('reap', tenants[due.ord], jobs[due.ord]::text, 'the job cannot be recovered: ' || sqlerrm);
      done := 'lost';
    end;
    if done <> 'lost' then
      settled := settled || due.ord;
      left_behind := left_behind || case when due.is_stale then due.worker end;
    end if;
    if done = 'overruled' then
      overruled := overruled || due.ord;
    end if;
  end loop;
  perform windlass.clear_problem('reap', array_agg(i.tenant), array_agg(s.subject), at)
     from unnest(tenants, jobs) i (tenant, job) cross join lateral unnest(array[i.job, i.tenant]) s (subject)
    where s.subject <> all (noted);
  update windlass.job_workers w set ended = 'lost' where w.id = any (left_behind);
end
$$;
