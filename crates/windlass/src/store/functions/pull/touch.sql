-- Processes that were heard from: they are present. One statement for all of them, however many wait. Answers those that
-- exist, and besides every worker that an operator asked to be quiet. Locks: the workers' rows, in order.
create or replace function windlass.touch_remote(workers integer[], seconds integer)
returns table (worker integer, is_quiet boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
begin
  perform from windlass.job_workers w where w.id = any (workers) order by w.id for no key update;
  return query
    with held as (select r.worker, count(*)::integer as n from windlass.remote_lease r where r.worker = any (workers) group by r.worker)
    update windlass.job_workers w
       set last_seen_at = at, stopped_at = null, ended = null, lease_expires_at = greatest(w.lease_expires_at, at + seconds * interval '1 s'),
           running_count = coalesce(h.n, 0)
      from unnest(workers) i (worker) left join held h on h.worker = i.worker
     where w.id = i.worker
    returning w.id, w.is_quiet;
  return query select w.id, true from windlass.job_workers w where w.is_quiet and w.stopped_at is null;
end
$$;
