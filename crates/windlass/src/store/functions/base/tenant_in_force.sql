-- The tenant that row-level security lets through: set for one transaction by
-- `set_config('windlass.tenant_id', …, true)`. Unset or empty means none, and none sees no rows.
-- After SET LOCAL ends the setting reads as '' rather than null, hence nullif.
create or replace function windlass.current_tenant() returns uuid
language sql stable parallel safe
return nullif(current_setting('windlass.tenant_id', true), '')::uuid;

-- Refuses when one of these tenants takes no jobs: it is suspended, being deleted, or gone. Every door asks this last, when it
-- has written something: then purge_tenant knows of its transaction.
create or replace function windlass.refuse_tenant(tenants uuid[]) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  refused record;
begin
  select n.id, coalesce(t.status, 'unknown') as status into refused
    from unnest(tenants) n (id) left join windlass.tenants t on t.id = n.id where t.status is distinct from 'active' limit 1;
  if found then
    raise exception 'the tenant % is %', refused.id, refused.status using errcode = 'WL003', detail = refused.id::text;
  end if;
end
$$;

-- The tenant an enqueue is for: the one named, else the one in force, else the default tenant.
-- A caller with a tenant in force cannot name another one.
create or replace function windlass.tenant_for(named uuid) returns uuid
language plpgsql stable
as $$
declare
  in_force uuid := windlass.current_tenant();
begin
  if in_force is null then
    return coalesce(named, '00000000-0000-7000-8000-000000000001');
  elsif named is null or named = in_force then
    return in_force;
  end if;
  raise exception 'this transaction acts for another tenant' using errcode = 'WL003', detail = named::text;
end
$$;
