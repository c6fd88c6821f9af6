-- Jobs held by workers whose lease has run out: what the reaper decides about. Looks at live rows only when a worker
-- is overdue, and walks live's primary key, which is as short as the runs under way.
create or replace function windlass.lost_jobs(most integer)
returns table (worker integer, tenant_id uuid, job_id uuid, lane integer, attempt integer, token uuid, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, cancel_requested boolean, deadline_ms bigint, definition_key text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  overdue integer[] := array(select w.id from windlass.job_workers w where w.stopped_at is null and w.lease_expires_at <= clock_timestamp());
  holding integer[];
begin
  if overdue = '{}' then
    return;
  end if;
  return query
    with held as materialized (
      select l.* from windlass.live l where l.worker = any (overdue) order by l.tenant_id, l.job_id limit most)
    select l.worker, l.tenant_id, l.job_id, l.lane, l.attempt, l.token, l.failures, l.lost, l.snoozes, l.max_attempts,
           l.cancel_requested_at is not null, (extract(epoch from b.deadline - clock_timestamp()) * 1000)::bigint, d.key
      from held l
      join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
      join windlass.lane n on n.id = l.lane
      join windlass.job_definitions d on d.id = n.definition_id;
  if not found then
    -- Nothing left of them: closed, under their row locks, so that a late heartbeat finds itself declared dead and no
    -- claim of theirs is under way. Only then is it certain that they hold nothing, hence the second look.
    overdue := array(select w.id from windlass.job_workers w
      where w.id = any (overdue) and w.stopped_at is null and w.lease_expires_at <= clock_timestamp()
      order by w.id for update skip locked);
    holding := array(select l.worker from windlass.live l where l.worker = any (overdue) order by l.tenant_id, l.job_id);
    overdue := array(select o from unnest(overdue) o where o <> all (holding));
    -- One of ours that said no goodbye is lost; the name of one that pulls holds an @, and it just went away.
    update windlass.job_workers w
       set stopped_at = clock_timestamp(), running_count = 0,
           ended = coalesce(w.ended, case when strpos(w.worker_id, '@') > 0 then 'stopped' else 'lost' end)
     where w.id = any (overdue);
    delete from windlass.waiting w where w.worker = any (overdue);
  end if;
end
$$;
