-- Cancels a job. A waiting job is canceled immediately. A running job is requested to stop and stays running, with its
-- dedupe key, until its worker acknowledges or its lease expires. Returns canceled, requested, requested_before (nothing
-- has changed), finished or missing. A job may move between the tables during the call, so the search is repeated if it
-- is not found. Only functions of the owner call it: cancel_as.sql has the public functions, which write the audit row in
-- the same transaction.
create or replace function windlass.cancel_unaudited(tenant uuid, job uuid) returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
declare
  held record;
  block windlass.live;
  at timestamptz := clock_timestamp();
begin
  perform windlass.tenant_for(tenant);
  perform windlass.stay_durable();
  for try in 1..20 loop
    if windlass.finish_waiting(tenant, array[job], windlass.state_code('canceled'), 'canceled') <> '{}' then
      perform windlass.unblock(tenant, array[job]);
      return 'canceled';
    end if;
    -- An update and not only a lock: a settlement that waits for this transaction evaluates the block again only if it
    -- has changed.
    block := windlass.block_of(tenant, job);
    update windlass.live l set cancel_requested_at[array_position(l.ids, job)]
        = coalesce(l.cancel_requested_at[array_position(l.ids, job)], at)
     where l.tenant_id = tenant and l.lane = block.lane and l.seq = block.seq
       and windlass.runs_at(l.ended, array_position(l.ids, job) - 1)
    returning l.attempt, l.worker, l.cancel_requested_at[array_position(l.ids, job)] = at as is_new into held;
    if found then
      insert into windlass.cancel_request (tenant_id, job_id, attempt, worker) values (tenant, job, held.attempt, held.worker)
        on conflict (tenant_id, job_id) do update set attempt = excluded.attempt, worker = excluded.worker;
      perform pg_notify('windlass', 'cancel ' || held.worker);
      return case when held.is_new then 'requested' else 'requested_before' end;
    end if;
    if exists (select from windlass.history h where h.tenant_id = tenant and h.job_id = job and h.job_status is not null) then
      return 'finished';
    elsif not exists (select from windlass.job b where b.tenant_id = tenant and b.id = job) then
      return 'missing';
    end if;
  end loop;
  raise exception 'job % changed its state repeatedly while it was being canceled; try again', job using errcode = '40001';
end
$$;
