-- Marks pull workers as present, in one statement for all of them. Returns those that exist, and also every worker that
-- an operator drained. A worker that signed off is not marked and not returned: the request that the call is about may be
-- older. Its next claim registers it again.
-- Lock: the workers' rows, in order. One that an open transaction has locked is
-- returned and not marked: the call serves the workers of all tenants. No keeper closes it meanwhile (see lost_jobs).
create or replace function windlass.pull_touch(workers integer[], seconds integer)
returns table (worker integer, is_draining boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  locked integer[] := array(
    select w.id from windlass.job_workers w
     where w.id = any (workers) and w.ended is distinct from 'stopped' order by w.id for no key update skip locked);
begin
  if seconds not between 1 and 86400 then
    perform windlass.raise_span('seconds', 1, 86400);
  end if;
  if not windlass.is_list(workers) then
    perform windlass.raise_array();
  end if;
  return query
    with held as (select r.worker, count(*)::integer as n from windlass.pull_lease r where r.worker = any (locked) group by r.worker)
    update windlass.job_workers w
       set last_seen_at = at, stopped_at = null, ended = null,
           lease_expires_at = greatest(w.lease_expires_at, at + seconds * interval '1 s'), running_count = coalesce(h.n, 0)
      from unnest(locked) i (worker) left join held h on h.worker = i.worker
     where w.id = i.worker
    returning w.id, windlass.is_draining(w.id);
  return query select w.id, windlass.is_draining(w.id) from windlass.job_workers w
    where w.id = any (workers) and w.id <> all (locked) and w.ended is distinct from 'stopped';
  return query select w.id, true from windlass.job_workers w join windlass.drain_request d on d.worker = w.id
    where w.stopped_at is null;
end
$$;
