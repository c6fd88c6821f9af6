-- Renews a worker's lease and returns its instructions: whether an operator drained it, and which of its jobs must
-- stop. One HOT update. Returns no row if the worker's lease expired and it was closed.
create or replace function windlass.heartbeat(by_worker integer, running integer)
returns table (is_draining boolean, canceled_tenants uuid[], canceled_jobs uuid[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  at constant timestamptz := clock_timestamp();
begin
  if coalesce(running not between 0 and 1000000, true) then
    perform windlass.raise_span('running', 0, 1000000);
  end if;
  update windlass.job_workers w
     set last_seen_at = at, lease_expires_at = at + w.lease_seconds * interval '1 s', running_count = running
   where w.id = by_worker and w.stopped_at is null;
  if found then
    is_draining := windlass.is_draining(by_worker);
    select array_agg(c.tenant_id), array_agg(c.job_id) into canceled_tenants, canceled_jobs
      from windlass.cancel_request c where c.worker = by_worker;
    return next;
  end if;
end
$$;
