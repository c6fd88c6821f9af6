-- Marks a worker as waiting, so that enqueues notify it, or as busy, so that they do not. Returns whether it will be
-- notified. Nothing here has to survive a crash, so the commit does not wait for the disk.
-- Lock order: the worker's row, then the gate, as in stop_worker and lost_jobs. Only a worker with a valid lease may
-- wait, which is checked under its row lock: the reaper deletes the waiting row of a dead worker once, when it closes
-- the worker, and a later message must not leave a row. The gate is locked exclusively: a shared lock on a row would be
-- a MultiXact for each worker. A login of a worker can keep it locked for any time, and nobody waits for that: the worker
-- then polls, as it does without notifications.
create or replace function windlass.set_waiting(by_worker integer, is_waiting boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.check_read_committed();
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
  if not windlass.lock_waiting() then
    return false;
  end if;
  insert into windlass.waiting (worker) values (by_worker) on conflict do nothing;
  if (select f.last_value from windlass.workers_wait f) = 0 then
    perform setval('windlass.workers_wait', 1);
  end if;
  return true;
end
$$;

-- Marks these workers as not waiting. The last one clears the flag; the lock lasts until its commit, so a worker that
-- starts to wait meanwhile is not missed. If the gate stays locked, their rows are left: a worker that is busy is notified
-- without need, and the keeper deletes the rows of closed workers in a later round.
create or replace function windlass.end_waiting(workers integer[]) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform windlass.check_read_committed();
  if not windlass.lock_waiting() then
    return;
  end if;
  delete from windlass.waiting w where w.worker = any (workers);
  if not exists (select from windlass.waiting) then
    perform setval('windlass.workers_wait', 0);
  end if;
end
$$;

-- Locks the gate of the waiting workers. Waits at most 200 ms; returns false if another transaction keeps it locked. The
-- first statement avoids a subtransaction in the usual case.
create or replace function windlass.lock_waiting() returns boolean
language plpgsql
set lock_timeout = '200ms'
as $$
begin
  if windlass.try_gate('waiting') then
    return true;
  end if;
  begin
    perform windlass.lock_gate('00000000-0000-0000-0000-000000000000', 'waiting');
    return true;
  exception when lock_not_available then
    return false;
  end;
end
$$;
