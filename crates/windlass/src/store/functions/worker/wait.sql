-- A worker with nothing to do says so, and enqueuers begin to ring; a busy one says so, and they stop paying for it. Answers whether
-- it is rung for now.
-- Only a worker whose lease holds may wait, checked under its row lock: the reaper takes the row of a dead worker away once, when it
-- closes that worker, and a message that arrives after that must not leave a row behind.
-- Nothing here has to survive a crash, so the commit does not wait for the disk.
-- Locks: the worker's row, then the gate; stop_worker and lost_jobs take them in the same order. All workers pass the gate one after the
-- other: a shared lock on a row would be a MultiXact for each of them.
create or replace function windlass.set_waiting(by_worker integer, is_waiting boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  if not is_waiting then
    perform windlass.end_waiting(array[by_worker]);
    return false;
  end if;
  perform from windlass.job_workers w
    where w.id = by_worker and w.stopped_at is null and w.lease_expires_at > clock_timestamp() for key share;
  if not found then
    return false;
  end if;
  perform windlass.lock_gate('00000000-0000-0000-0000-000000000000', 'waiting');
  insert into windlass.waiting (worker) values (by_worker) on conflict do nothing;
  if (select f.last_value from windlass.workers_wait f) = 0 then
    perform setval('windlass.workers_wait', 1);
  end if;
  return true;
end
$$;

-- These workers do not wait any more. The last one takes the flag down; the lock lasts until its commit, so nobody who begins to wait
-- meanwhile is overlooked.
create or replace function windlass.end_waiting(workers integer[]) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform windlass.need_read_committed();
  perform windlass.lock_gate('00000000-0000-0000-0000-000000000000', 'waiting');
  delete from windlass.waiting w where w.worker = any (workers);
  if not exists (select from windlass.waiting) then
    perform setval('windlass.workers_wait', 0);
  end if;
end
$$;
