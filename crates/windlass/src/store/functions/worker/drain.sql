-- Drains a worker, or ends that, for an operator. The worker receives it with its next heartbeat. Returns whether the
-- worker exists and has not stopped. A worker that is as requested is not recorded again. Workers belong to the
-- installation, so a transaction with a current tenant can only change the tenant's own pull workers, which are named
-- NAME@TENANT. The worker's row is not written: its heartbeats do not wait for an operator's open transaction.
create or replace function windlass.set_draining(worker_id text, is_draining boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  its_id integer;
begin
  if $2 is null then
    raise exception 'is_draining must be true or false' using errcode = 'WL007', column = 'is_draining';
  elsif windlass.current_tenant() is not null and $1 not like '%_@' || windlass.current_tenant() then
    raise exception 'the worker belongs to the installation or to another tenant: unset windlass.tenant_id'
      using errcode = 'WL003', detail = windlass.current_tenant()::text;
  end if;
  select w.id into its_id from windlass.job_workers w where w.worker_id = $1 and w.stopped_at is null;
  if not found then
    return false;
  end if;
  if $2 then
    insert into windlass.drain_request (worker, worker_id) values (its_id, $1) on conflict do nothing;
  else
    delete from windlass.drain_request d where d.worker = its_id;
  end if;
  if found then
    perform windlass.record_act(null, case when $2 then 'worker.drain' else 'worker.resume' end, $1, null,
      jsonb_build_object('is_draining', $2));
  end if;
  return true;
end
$$;

-- Requests that were made with the functions of the previous release, until they were replaced just now. A row that an open
-- transaction has locked is left: the installation must not wait.
with marked as (
  update windlass.job_workers w set is_draining = false
   where w.id = any (array(select m.id from windlass.job_workers m where m.is_draining order by m.id for no key update skip locked))
  returning w.id, w.worker_id)
insert into windlass.drain_request (worker, worker_id) select m.id, m.worker_id from marked m on conflict do nothing;

-- Whether an operator drains the worker.
create or replace function windlass.is_draining(worker integer) returns boolean
language sql stable
return exists (select from windlass.drain_request d where d.worker = $1);
