-- Applies the decisions of the reaper. A worker that left jobs without deregistering is marked as lost. A job that
-- cannot be settled is recorded in `trouble`, and the others are settled. A job that another transaction has locked is
-- left for the next round.
-- Lock: the workers' rows; each is checked again, so a heartbeat either came first (its jobs are kept) or comes later
-- (its jobs are gone). settle checks attempt and token again.
create or replace function windlass.reap(
  workers integer[], tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], details jsonb[],
  out settled integer[], out overruled integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  at timestamptz := clock_timestamp();
  overdue integer[];
  one record;
begin
  if not (windlass.is_list(workers) and windlass.is_list(tenants) and windlass.is_list(jobs)
      and windlass.is_list(attempts) and windlass.is_list(tokens) and windlass.is_list(details)) then
    perform windlass.refuse_array();
  end if;
  perform windlass.need_read_committed();
  perform windlass.tenants_for(tenants);
  select array_agg(o.id) into overdue from (
    select w.id from windlass.job_workers w
     where w.id = any (workers) and w.lease_expires_at <= clock_timestamp()
     order by w.id for update skip locked) o;
  if overdue is null then
    return;
  end if;
  begin
    select s.settled, s.overruled into settled, overruled
      from windlass.settle(tenants, jobs, attempts, tokens, array_fill(null::integer, array[cardinality(jobs)]), details, overdue, true) s;
  exception when others then
    perform windlass.raise_server_trouble(sqlstate, sqlerrm);
    settled := '{}';
    overruled := '{}';
    for i in 1 .. cardinality(jobs) loop
      begin
        select s.settled, s.overruled into one
          from windlass.settle(array[tenants[i]], array[jobs[i]], array[attempts[i]], array[tokens[i]], array[null::integer],
            array[details[i]], overdue, true) s;
        settled := settled || case when one.settled is not null then i end;
        overruled := overruled || case when one.overruled is not null then i end;
      exception when others then
        perform windlass.raise_server_trouble(sqlstate, sqlerrm);
        perform windlass.note_trouble('reap', tenants[i], jobs[i]::text, 'the job cannot be recovered: ' || sqlerrm);
      end;
    end loop;
    settled := array_remove(settled, null);
    overruled := nullif(array_remove(overruled, null), '{}');
  end;
  perform windlass.clear_trouble('reap', tenants, jobs, at);
  update windlass.job_workers w set ended = 'lost' where w.id = any (overdue) and w.ended is null;
end
$$;
