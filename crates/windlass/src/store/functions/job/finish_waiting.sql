-- Ends jobs that are not running (queued, scheduled or blocked) with a final status and no attempt. Ends only jobs that
-- it can lock in that state; returns their ids. Dependencies that exist because of an ordering key are kept: unblock
-- passes them to the next job of the key, which would otherwise start while an earlier one is still running.
create or replace function windlass.finish_waiting(tenant uuid, jobs uuid[], final smallint, why text) returns uuid[]
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  ended uuid[];
begin
  if jobs is null or jobs = '{}' then
    return '{}';
  end if;
  with from_line as materialized (select l.job_id, l.lane, l.holds_dedupe, 'queued' as state from windlass.leave_line(tenant, jobs) l),
  from_time as (
    delete from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs)
    returning d.job_id, d.lane, d.holds_dedupe, 'scheduled' as state),
  from_jobs as (
    delete from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs)
    returning b.job_id, b.lane, b.holds_dedupe, 'blocked' as state),
  gone as (select * from from_line union all select * from from_time union all select * from from_jobs),
  unwaited as (
    delete from windlass.dependency d using gone g
     where d.tenant_id = tenant and d.job_id = g.job_id
       and not coalesce(d.is_ordering, windlass.share_ordering_key(tenant, d.needs_job_id, d.job_id))),
  remembered as (
    insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, job_status, reason)
      select tenant, g.job_id, at, 0, g.lane, final, why from gone g),
  freed as (
    delete from windlass.dedupe d using gone g
     where g.holds_dedupe and d.released_at_end and d.tenant_id = tenant and d.job_id = g.job_id),
  counted as (
    insert into windlass.tally (tenant_id, lane, queued, scheduled, blocked, failed, canceled)
      select tenant, g.lane, -count(*) filter (where g.state = 'queued'), -count(*) filter (where g.state = 'scheduled'),
             -count(*) filter (where g.state = 'blocked'), count(*) filter (where final = windlass.state_code('failed')),
             count(*) filter (where final = windlass.state_code('canceled'))
        from gone g group by g.lane)
  select coalesce(array_agg(g.job_id), '{}') into ended from gone g;
  return ended;
end
$$;

-- The number of the last attempt in history. Attempt numbers only increase, also across retries.
create or replace function windlass.last_attempt(tenant uuid, job uuid) returns integer
language plpgsql stable
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
begin
  return (select coalesce(max(h.attempt), 0) from windlass.history h where h.tenant_id = tenant and h.job_id = job);
end
$$;
