-- Drains a worker, or ends that, for an operator. The worker receives it with its next heartbeat. Returns whether the
-- worker exists and has not stopped. Workers belong to the installation, so a transaction with a current tenant can
-- only change the tenant's own pull workers, which are named NAME@TENANT.
create or replace function windlass.set_draining(worker_id text, is_draining boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if windlass.current_tenant() is not null and $1 not like '%_@' || windlass.current_tenant() then
    raise exception 'the worker belongs to the installation or to another tenant: unset windlass.tenant_id'
      using errcode = 'WL003', detail = windlass.current_tenant()::text;
  end if;
  update windlass.job_workers w set is_draining = $2 where w.worker_id = $1 and w.stopped_at is null;
  if not found then
    return false;
  end if;
  perform windlass.must_record(null, array[case when $2 then 'worker.drain' else 'worker.resume' end], $1, null,
    jsonb_build_object('is_draining', $2));
  return true;
end
$$;
