-- The tenant that row-level security lets through: set for one transaction by
-- `set_config('windlass.tenant_id', …, true)`. Unset or empty means none, and none sees no rows.
-- After SET LOCAL ends the setting reads as '' rather than null, hence nullif.
create or replace function windlass.current_tenant() returns uuid
language sql stable parallel safe
return nullif(current_setting('windlass.tenant_id', true), '')::uuid;

-- Who called: the role taken by SET ROLE, else the login. Inside a function of the owner's both still say who called, and
-- nobody can take a role that was not granted.
create or replace function windlass.caller() returns text
language sql stable
return coalesce(nullif(current_setting('role'), 'none'), session_user::text);

-- The login of the connection, as the audit trail names whoever acts with it and no name of their own. No setting changes it.
create or replace function windlass.login_actor() returns text
language sql stable
return 'login:' || session_user;

-- Whether the caller may name any tenant while none is in force: workers, keepers, the server, the admin and operators serve all of them;
-- an application does not.
create or replace function windlass.serves_all_tenants() returns boolean
language sql stable
return pg_has_role(windlass.caller()::name, 'windlass_worker', 'member')
  or pg_has_role(windlass.caller()::name, 'windlass_keeper', 'member')
  or pg_has_role(windlass.caller()::name, 'windlass_admin', 'member')
  or pg_has_role(windlass.caller()::name, 'windlass_operator', 'member')
  or pg_has_role(windlass.caller()::name, 'windlass_owner', 'member');

-- The one rule about tenants; every function that takes one asks it. The tenant a call is for: the one named, else the one in
-- force, else the default tenant. With a tenant in force nobody can name another one. Without one, an application may act for
-- the default tenant as long as there is no other. The nil id is the installation, which is no tenant: it can be named where none
-- is in force, and is never in force itself. No SET clause: it is called for every job, from functions of every kind, so every
-- name, type and operator is qualified.
create or replace function windlass.tenant_for(named uuid) returns uuid
language plpgsql stable
as $$
declare
  in_force pg_catalog.uuid := windlass.current_tenant();
  wanted pg_catalog.uuid := coalesce(named, in_force, '00000000-0000-7000-8000-000000000001');
begin
  if wanted operator(pg_catalog.=) in_force then
    if wanted operator(pg_catalog.<>) '00000000-0000-0000-0000-000000000000' then
      return wanted;
    end if;
    raise exception 'the installation is not a tenant: act for it with no tenant in force' using errcode = 'WL003', detail = wanted::pg_catalog.text;
  elsif in_force is null and windlass.serves_all_tenants() then
    return wanted;
  elsif in_force is not null then
    raise exception 'this transaction acts for another tenant' using errcode = 'WL003', detail = wanted::pg_catalog.text;
  elsif wanted operator(pg_catalog.<>) '00000000-0000-7000-8000-000000000001'
      or exists (select from windlass.tenants t where t.id operator(pg_catalog.<>) '00000000-0000-7000-8000-000000000001') then
    raise exception 'no tenant is in force: set windlass.tenant_id to the tenant that this transaction acts for'
      using errcode = 'WL003', detail = wanted::pg_catalog.text;
  end if;
  return wanted;
end
$$;

-- The same for functions that take many.
create or replace function windlass.tenants_for(named uuid[]) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if windlass.current_tenant() is not null or not windlass.serves_all_tenants() then
    perform windlass.tenant_for(n.id) from (select distinct u.id from unnest(named) u (id)) n;
  end if;
end
$$;

-- Refuses when one of these tenants takes no jobs: it is suspended, being deleted, or gone. Every door asks this last, when it
-- has written something: then purge_tenant knows of its transaction. A transaction with one snapshot throughout may have taken it
-- before the tenant was closed, and would read that it is open: it locks the row instead, which fails if the row has changed since.
create or replace function windlass.refuse_tenant(tenants uuid[]) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  refused record;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform from windlass.tenants t where t.id = any (tenants) order by t.id for share;
  end if;
  select n.id, coalesce(t.status, 'unknown') as status into refused
    from unnest(tenants) n (id) left join windlass.tenants t on t.id = n.id where t.status is distinct from 'active' limit 1;
  if found then
    raise exception 'the tenant % is %', refused.id, refused.status using errcode = 'WL003', detail = refused.id::text;
  end if;
end
$$;
