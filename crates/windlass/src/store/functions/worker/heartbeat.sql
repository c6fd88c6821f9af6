-- Renews a worker's lease and brings back what it should know: whether an operator asked it to be quiet, and which of
-- its jobs should stop. One HOT update. Answers no row when the worker was declared dead: nothing brings it back.
create or replace function windlass.heartbeat(by_worker integer, running integer)
returns table (is_quiet boolean, canceled_tenants uuid[], canceled_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
begin
  update windlass.job_workers w
     set last_seen_at = at, lease_expires_at = at + w.lease_seconds * interval '1 s', running_count = running
   where w.id = by_worker and w.stopped_at is null
  returning w.is_quiet into is_quiet;
  if found then
    select array_agg(c.tenant_id), array_agg(c.job_id) into canceled_tenants, canceled_jobs
      from windlass.cancel_request c where c.worker = by_worker;
    return next;
  end if;
end
$$;
