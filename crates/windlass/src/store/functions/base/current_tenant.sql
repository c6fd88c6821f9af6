-- The current tenant, which row-level security applies. Set for one transaction by `set_config('windlass.tenant_id', …,
-- true)`. Unset or empty means none, and then no rows are visible. After SET LOCAL ends, the setting is '' and not
-- null, hence nullif.
create or replace function windlass.current_tenant() returns uuid
language sql stable parallel safe
return nullif(current_setting('windlass.tenant_id', true), '')::uuid;

-- Refuses (42501) to act for the session of somebody else. What a table of the caller contains runs code of the caller whenever the
-- owner's work is done by another session: a function of an index under autovacuum, ANALYZE and REINDEX, the query of a materialized view
-- under REFRESH. PostgreSQL changes the role for it, but `session_user` is that session's login, mostly a superuser. It forbids such
-- code to end a subscription, which has no effect here. Everything that decides by the login, or writes it down, calls this first.
create or replace function windlass.check_own_session() returns void
language plpgsql
as $$
begin
  unlisten windlass_nothing;
end
$$;

-- The caller: the role of SET ROLE, else the login. Also correct inside a function that runs as the owner. No one can
-- take a role that was not granted.
create or replace function windlass.caller() returns text
language sql stable
return coalesce(nullif(current_setting('role'), 'none'), session_user::text);

-- The login of the connection, as the audit trail names a caller without a name. No setting changes it.
create or replace function windlass.login_actor() returns text
language sql stable
return 'login:' || session_user;

-- Whether the caller is the server. For most logins, no SET ROLE changes it. A superuser, and the creator of the roles, are members of
-- every role, and what they do with SQL must be recorded with their login. So a superuser is the server only in a transaction that has
-- taken a role of the server, as each request does; and from PostgreSQL 16 on, a member that may not take the role is not the server.
create or replace function windlass.is_server() returns boolean
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.check_own_session();
  if exists (select from pg_roles r where r.rolname = session_user and r.rolsuper) then
    return windlass.caller() in ('windlass_server', 'windlass_admin');
  end if;
  return pg_has_role(session_user, 'windlass_server',
    case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end);
end
$$;

-- Whether the caller may do what this role may. Not the login: a gateway's login may have the roles of all of its callers. From
-- PostgreSQL 16 on, a member may have neither the privileges of a role nor the right to take it: whoever only administers it. This
-- function and those that call it are plain expressions, because a subquery would not be inlined.
create or replace function windlass.can_act_as(role name) returns boolean
language sql stable
return pg_has_role(windlass.caller()::name, role,
  case when current_setting('server_version_num')::integer >= 160000 then 'USAGE, SET' else 'MEMBER' end);

-- Whether the caller is an operator or an admin.
create or replace function windlass.is_administrator() returns boolean
language sql stable
return windlass.can_act_as('windlass_admin') or windlass.can_act_as('windlass_operator');

-- Returns the actor for the audit trail. The server names its caller. Every other caller is recorded by its login, followed by the name
-- that it gives, if any. Commands with a database URL give local:USER@LOGIN, which is accepted from a login that can administer, if it is
-- its own name: an application cannot give its acts the name of a command.
create or replace function windlass.actor_for(named text) returns text
language sql stable
return case
  when windlass.is_server() then coalesce(named, windlass.login_actor())
  when coalesce(btrim(named), '') = '' or named = windlass.login_actor() then windlass.login_actor()
  when starts_with(named, 'local:') and right(named, length(session_user::text) + 1) = '@' || session_user
    and windlass.is_administrator() then named
  else windlass.login_actor() || ' as ' || named end;

-- Returns the role for the audit trail. The server names the role of its caller. Every other caller is recorded by its database
-- role.
create or replace function windlass.role_for(named text) returns text
language sql stable
return case
  when windlass.is_server() then named
  else windlass.caller() end;

-- Whether the caller is one of our own processes that route jobs themselves, and that is trusted to have validated them: workers,
-- keepers and the server. Applications, operators and the admin are people's logins, whose jobs are checked.
create or replace function windlass.routes_jobs() returns boolean
language sql stable
return windlass.can_act_as('windlass_worker') or windlass.can_act_as('windlass_keeper') or windlass.can_act_as('windlass_owner');

-- Whether the caller may name any tenant if there is no current one: workers, keepers, the server, the admin and
-- operators may; an application may not.
create or replace function windlass.serves_all_tenants() returns boolean
language sql stable
return windlass.routes_jobs() or windlass.can_act_as('windlass_admin') or windlass.can_act_as('windlass_operator');

-- The only rule about tenants; every function that takes a tenant calls it. Returns the tenant of the call: the named
-- one, else the current one, else the default tenant. With a current tenant, no other tenant can be named. Without one,
-- an application may act for the default tenant if it is the only one. The nil id is the installation, which is not a
-- tenant: it can be named if there is no current tenant, and it is never the current tenant. No SET clause, because it
-- is called for every job from functions of every kind; so every name, type and operator is qualified.
create or replace function windlass.tenant_for(named uuid) returns uuid
language plpgsql stable
as $$
declare
  current pg_catalog.uuid := windlass.current_tenant();
  wanted pg_catalog.uuid := coalesce(named, current, '00000000-0000-7000-8000-000000000001');
begin
  if wanted operator(pg_catalog.=) current then
    if wanted operator(pg_catalog.<>) '00000000-0000-0000-0000-000000000000' then
      return wanted;
    end if;
    raise exception 'the installation is not a tenant: unset windlass.tenant_id' using errcode = 'WL003', detail = wanted::pg_catalog.text;
  elsif current is null and windlass.serves_all_tenants() then
    perform windlass.check_own_session();
    return wanted;
  elsif current is not null then
    raise exception 'the current tenant of this transaction is another one' using errcode = 'WL003', detail = wanted::pg_catalog.text;
  elsif wanted operator(pg_catalog.<>) '00000000-0000-7000-8000-000000000001'
      or exists (select from windlass.tenants t where t.id operator(pg_catalog.<>) '00000000-0000-7000-8000-000000000001') then
    raise exception 'no current tenant: set windlass.tenant_id'
      using errcode = 'WL003', detail = wanted::pg_catalog.text;
  end if;
  return wanted;
end
$$;

-- The same for functions that take many tenants.
create or replace function windlass.tenants_for(named uuid[]) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if windlass.current_tenant() is not null or not windlass.serves_all_tenants() then
    perform windlass.tenant_for(n.id) from (select distinct u.id from unnest(named) u (id)) n;
  else
    perform windlass.check_own_session();
  end if;
end
$$;

-- Refuses (WL003) while there is a current tenant: what belongs to all tenants is not changed on behalf of one of them.
create or replace function windlass.check_no_tenant(what text) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if windlass.current_tenant() is not null then
    raise exception '% belongs to all tenants: unset windlass.tenant_id', what
      using errcode = 'WL003', detail = windlass.current_tenant()::text;
  end if;
end
$$;

-- Refuses (WL003) a tenant that does not exist. It is not deleted before the transaction ends.
create or replace function windlass.check_tenant_exists(tenant uuid) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform from windlass.tenants t where t.id = tenant for key share;
  if not found then
    raise exception 'tenant % not found', coalesce(tenant::text, 'null') using errcode = 'WL003', detail = coalesce(tenant::text, '');
  end if;
end
$$;

-- Refuses the call if one of these tenants does not accept jobs: it is suspended, being deleted, or does not exist.
-- Every function that enqueues calls it last, after a write, so that purge_tenant sees its transaction. A transaction
-- with a fixed snapshot may have taken it before the tenant was closed, and would still read that it is open. So it
-- locks the row, which fails if the row has changed since.
create or replace function windlass.check_tenants_active(tenants uuid[]) returns void
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
    raise exception 'the tenant % is %', refused.id, refused.status using errcode = 'WL003', detail = coalesce(refused.id::text, '');
  end if;
end
$$;
