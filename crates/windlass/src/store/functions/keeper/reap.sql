-- Applies what the reaper decided. Locks the workers and re-checks that each is still overdue, so a heartbeat either
-- came first (and its jobs are spared) or comes after (and finds them taken); settle re-checks attempt and token.
-- Whoever left jobs behind without a goodbye is marked as lost.
create or replace function windlass.reap(
  workers integer[], tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], details jsonb[],
  out settled integer[], out overruled integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  overdue integer[];
begin
  select array_agg(o.id) into overdue from (
    select w.id from windlass.job_workers w
     where w.id = any (workers) and w.lease_expires_at <= clock_timestamp()
     order by w.id for update skip locked) o;
  if overdue is not null then
    select s.settled, s.overruled into settled, overruled
      from windlass.settle(tenants, jobs, attempts, tokens, array_fill(null::integer, array[cardinality(jobs)]), details, overdue) s;
    update windlass.job_workers w set ended = 'lost' where w.id = any (overdue) and w.ended is null;
  end if;
end
$$;
