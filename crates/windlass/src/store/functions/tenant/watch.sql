-- Makes the fast paths check the tenant of each job (see enqueue_routed), from now on, even if this transaction rolls
-- back. Called after a tenant was suspended, marked as deleting, or given a quota. The gate is shared: the caller holds
-- it until commit, and changes of other tenants must not wait for that. Only unwatch_tenants excludes it.
create or replace function windlass.watch_tenants() returns void
language plpgsql
as $$
begin
  perform windlass.share_gate('00000000-0000-0000-0000-000000000000', 'tenants watched');
  perform setval('windlass.tenants_watched', 1);
end
$$;

-- Ends these checks when they are not needed: no tenant has a quota or is being deleted, and the last one was deleted a
-- minute ago, so no process can still cache its lanes. A tenant that is suspended, or whose deletion is blocked by a
-- legal hold, counts for a minute only: it may stay so for years, and our processes refresh within seconds. An
-- application's jobs are always checked (see check_routed). Does nothing while another transaction is in
-- watch_tenants.
create or replace function windlass.unwatch_tenants() returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  if (select f.last_value from windlass.tenants_watched f) = 0
      or not windlass.try_gate('tenants watched') then
    return;
  end if;
  if not exists (select from windlass.tenants t where t.max_queued is not null
        or (t.status <> 'active' and t.updated_at > clock_timestamp() - interval '1 min')
        or (t.status = 'deleting' and not exists (select from windlass.legal_hold h where h.tenant_id = t.id)))
      and not exists (select from windlass.keeper_mark m where m.duty = 'tenant deleted'
        and m.reached > clock_timestamp() - interval '1 min') then
    perform setval('windlass.tenants_watched', 0);
  end if;
end
$$;

-- The check of the fast path while some tenant is watched: refuses the job if the tenant does not accept jobs or has
-- reached its quota.
create or replace function windlass.check_watched(tenant uuid) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.check_tenants_active(array[tenant]);
  perform windlass.limit_to_quota(tenant, 1);
end
$$;
