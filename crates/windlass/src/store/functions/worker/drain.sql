-- Drains a worker, or ends that, for an operator. The worker receives it with its next heartbeat. Returns whether the
-- worker exists and has not stopped. A worker that is as requested is not written. Workers belong to the installation,
-- so a transaction with a current tenant can only change the tenant's own pull workers, which are named NAME@TENANT.
create or replace function windlass.set_draining(worker_id text, is_draining boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  was boolean;
begin
  if windlass.current_tenant() is not null and $1 not like '%_@' || windlass.current_tenant() then
    raise exception 'the worker belongs to the installation or to another tenant: unset windlass.tenant_id'
      using errcode = 'WL003', detail = windlass.current_tenant()::text;
  end if;
  select w.is_draining into was from windlass.job_workers w where w.worker_id = $1 and w.stopped_at is null for no key update;
  if was is distinct from $2 and found then
    update windlass.job_workers w set is_draining = $2 where w.worker_id = $1;
    perform windlass.record_act(null, case when $2 then 'worker.drain' else 'worker.resume' end, $1, null,
      jsonb_build_object('is_draining', $2));
  end if;
  return was is not null;
end
$$;
