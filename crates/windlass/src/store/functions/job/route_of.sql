-- The lane and the policies of (tenant, definition, queue, priority), which Rust callers cache for a few seconds. A
-- definition with a start deadline and a tenant with a quota need the guarded enqueue; has_start_deadline is true for
-- both. In Rust it is `is_guarded`; the name is kept here because workers of the previous release read it.
create or replace function windlass.route_of(
  tenant uuid, definition_key text, queue text, priority integer,
  out tenant_id uuid, out lane integer, out max_attempts smallint, out has_start_deadline boolean, out arg_schema jsonb)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  tenant_id := windlass.tenant_for(tenant);
  select r.lane, r.max_attempts, r.start_deadline_seconds is not null
           or exists (select from windlass.tenants t where t.id = route_of.tenant_id and t.max_queued is not null)
      into lane, max_attempts, has_start_deadline
    from windlass.route(route_of.tenant_id, route_of.definition_key, route_of.queue, route_of.priority) r;
  select d.arg_schema into arg_schema from windlass.job_definitions d where d.key = route_of.definition_key;
end
$$;
