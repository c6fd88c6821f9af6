-- Jobs held by workers whose lease has run out: what the reaper decides about. Looks at live rows only when a worker
-- is overdue, and walks an index of live, which is as small as the work in flight.
-- A worker that holds nothing is closed. A claim that was under way at that moment may still commit, since claims do not
-- lock their worker; so a closed worker is looked at once more, ten seconds later, when no claim of its can be open.
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
  overdue integer[] := array(
    select w.id from windlass.job_workers w
     where (w.stopped_at is null and w.lease_expires_at <= clock_timestamp())
        or (w.swept_at is null and w.stopped_at <= clock_timestamp() - interval '10 s'));
begin
  if overdue = '{}' then
    return;
  end if;
  return query
    with held as materialized (
      select l.* from windlass.live l where l.worker = any (overdue) order by l.lane, l.seq limit most)
    select l.worker, l.tenant_id, l.job_id, l.lane, l.attempt, l.token, l.failures, l.lost, l.snoozes, l.max_attempts,
           l.cancel_requested_at is not null, (extract(epoch from b.deadline - clock_timestamp()) * 1000)::bigint, d.key
      from held l
      join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
      join windlass.lane n on n.id = l.lane
      join windlass.job_definitions d on d.id = n.definition_id;
  if not found then
    -- Nothing left of them: closed, under their row locks, so that a late heartbeat finds itself declared dead.
    update windlass.job_workers w
       set stopped_at = coalesce(w.stopped_at, clock_timestamp()), running_count = 0,
           swept_at = case when w.stopped_at is not null then clock_timestamp() end
     where w.id = any (overdue) and (w.stopped_at is not null or w.lease_expires_at <= clock_timestamp());
    delete from windlass.waiting w where w.worker = any (overdue);
  end if;
end
$$;
