-- One step of deleting a tenant. The first marks it `deleting`, so that nothing new is enqueued; each further one deletes
-- a batch; the last removes the tenant itself. Answers how many jobs went, and whether it is done. Resumable at any
-- point: call until done. The last one waits for every transaction that may have looked at the tenant before it was marked
-- and has not committed its jobs: each door looks at the tenant when it has a transaction number already. The quick door
-- looks only while tenants are watched (see enqueue_routed and watch.sql). A barrier that is still to come was taken in another
-- cluster, before the database was restored here; nobody of that time is left, so it is taken anew.
create or replace function windlass.purge_tenant(tenant uuid, most integer, out purged integer, out done boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  now_running pg_snapshot := pg_current_snapshot();
  was record;
begin
  perform windlass.need_read_committed();
  perform windlass.tenant_for(tenant);
  done := false;
  if tenant = '00000000-0000-7000-8000-000000000001' then
    raise exception 'the default tenant cannot be deleted' using errcode = 'WL003', detail = tenant::text;
  end if;
  perform windlass.share_gate(tenant, 'hold'); -- a hold that is being placed comes first
  if exists (select from windlass.legal_hold h where h.tenant_id = tenant) then
    raise exception 'the tenant has something under legal hold' using errcode = 'WL020', detail = tenant::text;
  end if;
  select t.status, least(t.purge_barrier, pg_snapshot_xmax(now_running)) as barrier into was from windlass.tenants t where t.id = tenant;
  if was.status <> 'deleting' then
    update windlass.tenants t set status = 'deleting', updated_at = now() where t.id = tenant;
    perform windlass.watch_tenants();
  else
    update windlass.tenants t set purge_barrier = was.barrier where t.id = tenant and t.purge_barrier is distinct from was.barrier;
  end if;
  purged := windlass.purge(tenant, array(select b.id from windlass.job b where b.tenant_id = tenant limit most));
  if purged = 0 and was.status = 'deleting' and pg_snapshot_xmin(now_running) >= was.barrier then
    delete from windlass.dedupe d where d.tenant_id = tenant;
    delete from windlass.idempotency i where i.tenant_id = tenant;
    delete from windlass.ordering o where o.tenant_id = tenant;
    delete from windlass.event_pending e where e.tenant_id = tenant;
    delete from windlass.event_dispatch e where e.tenant_id = tenant;
    delete from windlass.event e where e.tenant_id = tenant;
    delete from windlass.fire f where f.tenant_id = tenant;
    delete from windlass.retention r where r.tenant_id = tenant;
    delete from windlass.dependency d where d.tenant_id = tenant;
    delete from windlass.unblock_due u where u.tenant_id = tenant;
    delete from windlass.prune_again a where a.tenant_id = tenant;
    delete from windlass.job_triggers t where t.tenant_id = tenant;
    delete from windlass.members m where m.tenant_id = tenant;
    delete from windlass.api_tokens k where k.tenant_id = tenant;
    delete from windlass.request_keys k where k.tenant_id = tenant;
    delete from windlass.tally t where t.tenant_id = tenant;
    delete from windlass.total t where t.tenant_id = tenant;
    delete from windlass.lane l where l.tenant_id = tenant;
    delete from windlass.gate g where g.of_id = tenant;
    delete from windlass.tenants t where t.id = tenant;
    insert into windlass.keeper_mark as m (duty, reached) values ('tenant deleted', clock_timestamp())
      on conflict (duty) do update set reached = excluded.reached, updated_at = now();
    done := true;
  end if;
end
$$;
