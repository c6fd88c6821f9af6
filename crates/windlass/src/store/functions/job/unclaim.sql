-- Gives back what a claim took whose answer never came: the worker does not know of these jobs, and as long as it lives
-- nobody else would look for them. Uncharged, since they were never started. Returns how many there were.
--
-- Index: live's primary key, which is as short as the runs under way. Locks: the worker's row first, in a mode that waits for
-- the claim if that is still under way; only after it is the claim's work, or that there is none, visible.
create or replace function windlass.unclaim(by_worker integer, with_token uuid, lanes integer[]) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
begin
  perform from windlass.job_workers w where w.id = by_worker for update;
  select array_agg(l.tenant_id order by l.tenant_id, l.job_id) as tenants, array_agg(l.job_id order by l.tenant_id, l.job_id) as jobs,
         array_agg(l.attempt order by l.tenant_id, l.job_id) as attempts, count(*)::integer as n
    into held from windlass.live l
   where l.lane = any (lanes) and l.worker = by_worker and l.token = with_token;
  if held.n > 0 then
    perform windlass.settle(held.tenants, held.jobs, held.attempts, array_fill(with_token, array[held.n]),
      array_fill(null::integer, array[held.n]),
      array_fill('{"outcome": 7, "next": 5, "error": "the answer to the claim was lost"}'::jsonb, array[held.n]));
  end if;
  return held.n;
end
$$;
