-- Releases the jobs of a claim whose response was lost: the worker does not know them, and no keeper searches for them
-- while its lease is valid. Not counted as a failure, because they were never started. Returns how many could not be
-- released because another transaction has locked them: call again until it returns 0. They do not block claims. Ends
-- the epoch of the claim, because the claim may not have run yet: it may still be on the network, or wait for a lock.
-- If it runs later, its epoch has ended and it takes nothing. Idempotent.
--
-- Index: live's primary key, which is as small as the number of running jobs.
-- Lock order: the worker's row first, in a mode that waits for a claim in progress; only then is the claim's result
-- visible.
create or replace function windlass.unclaim(by_worker integer, with_token uuid, lanes integer[], of_epoch integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  left_over integer := 0;
begin
  if not windlass.is_list(lanes) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed();
  perform windlass.end_epoch(by_worker, of_epoch);
  select array_agg(h.tenant_id) as tenants, array_agg(h.lane) as lanes, array_agg(h.seq) as seqs, array_agg(h.attempt) as attempts,
         array_agg(h.at_position) as positions, count(*)::integer as n
    into held from (
      select l.tenant_id, l.lane, l.seq, l.attempt, r.at_position
        from windlass.live l cross join lateral windlass.running_of(l.ids, l.ended) r
       where l.lane = any (lanes) and l.worker = by_worker and l.token = with_token
       order by l.tenant_id, l.lane, l.seq, r.at_position) h;
  if held.n > 0 then
    select coalesce(cardinality(s.busy), 0) into left_over
      from windlass.settle_blocks(held.tenants, held.lanes, held.seqs, held.attempts, array_fill(with_token, array[held.n]),
        held.positions, array_fill(null::integer, array[held.n]),
        array_fill(jsonb_build_object('outcome', windlass.outcome_code('released'), 'next', windlass.state_code('queued'),
          'error', 'the response to the claim was lost'), array[held.n]),
        skips_locked => true) s;
  end if;
  return left_over;
end
$$;

-- Ends this epoch: no claim of it, or of an earlier one, takes anything for this worker. Waits for a claim in progress.
create or replace function windlass.end_epoch(by_worker integer, of_epoch integer) returns void
language plpgsql
as $$
begin
  perform from windlass.job_workers w where w.id = by_worker for update;
  update windlass.job_workers w set epoch = of_epoch + 1 where w.id = by_worker and w.epoch <= of_epoch;
end
$$;
