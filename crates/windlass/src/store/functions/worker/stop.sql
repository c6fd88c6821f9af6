-- Stops a worker at its own request. Its remaining jobs are reaped immediately, and not after its lease.
create or replace function windlass.stop_worker(by_worker integer) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  update windlass.job_workers set last_seen_at = clock_timestamp(), lease_expires_at = clock_timestamp(), running_count = 0,
    ended = 'stopped'
   where id = by_worker and stopped_at is null;
  perform windlass.end_waiting(array[by_worker]);
end
$$;
