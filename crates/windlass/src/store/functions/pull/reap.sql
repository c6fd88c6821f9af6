-- Applies what the reaper decided about pulled jobs. Locks each lease and re-checks that it has still run out, so a
-- heartbeat either came first (and the job is spared) or comes after (and finds it taken); settle re-checks attempt and
-- token. Answers the positions that took effect. A worker that left a job behind is marked as lost, until it is heard from.
-- Locks: the workers' rows in order, then the leases, as a heartbeat does, and the live rows, skipping locked ones. Whatever else an
-- open transaction holds is waited for briefly.
create or replace function windlass.reap_remote(
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
begin
  perform windlass.tenants_for(tenants);
  perform from windlass.job_workers w
    where w.id in (select r.worker from unnest(tenants, jobs) i (tenant, job)
                     join windlass.remote_lease r on r.tenant_id = i.tenant and r.job_id = i.job)
    order by w.id for no key update;
  for due in
    select i.ord::integer as ord, r.worker, r.times_out_at > r.expires_at as is_silent
      from unnest(tenants, jobs, attempts, tokens) with ordinality i (tenant, job, attempt, token, ord)
      join windlass.remote_lease r on r.tenant_id = i.tenant and r.job_id = i.job and r.attempt = i.attempt and r.token = i.token
      join windlass.live l on l.tenant_id = i.tenant and l.job_id = i.job and l.attempt = i.attempt and l.token = i.token
     where r.expires_at <= clock_timestamp()
     order by r.tenant_id, r.job_id
       for update of r, l skip locked
  loop
    begin
      done := windlass.settle_remote(tenants[due.ord], jobs[due.ord], attempts[due.ord], tokens[due.ord], details[due.ord]);
    exception when others then
      perform windlass.raise_server_trouble(sqlstate, sqlerrm);
      perform windlass.note_trouble('reap', tenants[due.ord], jobs[due.ord]::text, 'the job cannot be taken back from its worker: ' || sqlerrm);
      done := 'lost';
    end;
    if done <> 'lost' then
      settled := settled || due.ord;
      left_behind := left_behind || case when due.is_silent then due.worker end;
    end if;
    if done = 'overruled' then
      overruled := overruled || due.ord;
    end if;
  end loop;
  perform windlass.clear_trouble('reap', tenants, jobs, at);
  update windlass.job_workers w set ended = 'lost' where w.id = any (left_behind);
end
$$;
