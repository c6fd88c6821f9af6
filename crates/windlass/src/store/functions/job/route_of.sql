-- The lane and the policies of (tenant, definition, queue, priority), which Rust callers cache for a few seconds. A
-- definition with a start deadline and a tenant with a quota need the guarded enqueue; is_guarded is true for both.
create or replace function windlass.route_of(
  tenant uuid, definition_key text, queue text, priority integer,
  out tenant_id uuid, out lane integer, out max_attempts smallint, out is_guarded boolean, out arg_schema jsonb)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  tenant_id := windlass.tenant_for(tenant);
  select r.lane, r.max_attempts, r.start_deadline_seconds is not null
           or exists (select from windlass.tenants t where t.id = route_of.tenant_id and t.max_queued is not null)
      into lane, max_attempts, is_guarded
    from windlass.route(route_of.tenant_id, route_of.definition_key, route_of.queue, route_of.priority) r;
  select d.arg_schema into arg_schema from windlass.job_definitions d where d.key = route_of.definition_key;
end
$$;

-- The same for a keeper, which needs the routes of many tenants one after the other: if an open transaction of the tenant
-- has created or reactivated the lane, or has locked the tenant, the call fails after 200 ms with lock_not_available.
create or replace function windlass.keeper_route(
  tenant uuid, definition_key text,
  out tenant_id uuid, out lane integer, out max_attempts smallint, out is_guarded boolean, out arg_schema jsonb)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
begin
  select r.tenant_id, r.lane, r.max_attempts, r.is_guarded, r.arg_schema
    into tenant_id, lane, max_attempts, is_guarded, arg_schema
    from windlass.route_of(keeper_route.tenant, keeper_route.definition_key, null, null) r;
end
$$;
