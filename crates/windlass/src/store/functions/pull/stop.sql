-- Ends the service of a pull worker at its own request. Returns whether it has ended: a worker that holds a job stays,
-- because processes can share a name, and another one may be running the job. An unknown or stopped worker has ended.
-- The next claim of the worker reopens its row (see pull_register).
-- Lock: the worker's row, as pull_claim does, so that no job is claimed meanwhile. Hence the second read.
create or replace function windlass.pull_stop(worker_id text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  own integer;
begin
  perform windlass.check_read_committed();
  select w.id into own from windlass.job_workers w
   where w.worker_id = $1 and strpos($1, '@') > 0 and w.stopped_at is null for no key update;
  if own is null then
    return true;
  end if;
  if exists (select from windlass.pull_lease r where r.worker = own) then
    return false;
  end if;
  update windlass.job_workers w
     set last_seen_at = clock_timestamp(), lease_expires_at = clock_timestamp(), stopped_at = clock_timestamp(), running_count = 0,
         ended = 'stopped'
   where w.id = own;
  return true;
end
$$;
