-- Gives back what a claim took whose answer never came: the worker does not know of these jobs, and as long as it lives
-- nobody else would look for them. Uncharged, since they were never started. Returns how many could not be given back because somebody
-- else holds them locked: call again until it is none. They keep nobody from claiming.
-- Ends the epoch of that claim, because the claim may not have been executed yet: its bytes may still be on their way, or it may
-- wait for a lock. Executed after this, it finds its epoch ended and takes nothing. Calling this twice does no harm.
--
-- Index: live's primary key, which is as short as the runs under way. Locks: the worker's row first, in a mode that waits for
-- the claim if that is still under way; only after it is the claim's work, or that there is none, visible.
create or replace function windlass.unclaim(by_worker integer, with_token uuid, lanes integer[], of_epoch integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  left_over integer := 0;
begin
  perform windlass.need_read_committed();
  perform windlass.end_epoch(by_worker, of_epoch);
  select array_agg(l.tenant_id order by l.tenant_id, l.job_id) as tenants, array_agg(l.job_id order by l.tenant_id, l.job_id) as jobs,
         array_agg(l.attempt order by l.tenant_id, l.job_id) as attempts, count(*)::integer as n
    into held from windlass.live l
   where l.lane = any (lanes) and l.worker = by_worker and l.token = with_token;
  if held.n > 0 then
    select coalesce(cardinality(s.busy), 0) into left_over
      from windlass.settle(held.tenants, held.jobs, held.attempts, array_fill(with_token, array[held.n]),
        array_fill(null::integer, array[held.n]),
        array_fill('{"outcome": 7, "next": 5, "error": "the answer to the claim was lost"}'::jsonb, array[held.n]),
        skips_locked => true) s;
  end if;
  return left_over;
end
$$;

-- From now on no claim of this epoch, or of an earlier one, takes anything for this worker. Waits for a claim under way.
create or replace function windlass.end_epoch(by_worker integer, of_epoch integer) returns void
language plpgsql
as $$
begin
  perform from windlass.job_workers w where w.id = by_worker for update;
  update windlass.job_workers w set epoch = of_epoch + 1 where w.id = by_worker and w.epoch <= of_epoch;
end
$$;
