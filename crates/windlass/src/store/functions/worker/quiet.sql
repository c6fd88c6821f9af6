-- An operator asks a worker to finish what it has and take nothing new, or to go on. It hears of it with its next
-- heartbeat. Answers whether there is such a worker and it is alive.
create or replace function windlass.set_quiet(worker_id text, is_quiet boolean) returns boolean
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  with asked as (
    update windlass.job_workers w set is_quiet = $2 where w.worker_id = $1 and w.stopped_at is null returning 1)
  select exists (select from asked)
$$;
