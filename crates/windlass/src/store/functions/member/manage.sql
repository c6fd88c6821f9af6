-- A member of a tenant as the API returns it.
create or replace function windlass.shown_member(of_tenant uuid, of_user uuid) returns jsonb
language sql stable
as $$
  select jsonb_build_object('tenant_id', m.tenant_id, 'user_id', m.user_id, 'email', u.email, 'name', u.name, 'role', m.role,
           'is_active', u.is_active, 'created_at', m.created_at)
    from windlass.members m join windlass.users u on u.id = m.user_id where m.tenant_id = of_tenant and m.user_id = of_user
$$;

-- Locks and returns one member, so that a decision by their role stays valid until the transaction ends. Null if there
-- is none.
create or replace function windlass.lock_member(of_tenant uuid, of_user uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  perform from windlass.members m where m.tenant_id = of_tenant and m.user_id = of_user for update;
  return windlass.shown_member(of_tenant, of_user);
end
$$;

-- Deletes the links (invitations and password resets) that a member has created for the tenant, because the role that they were
-- created with has ended. Checking the creator when a link is used would not be enough: the person may get the role again.
-- Lock order: the creator's membership comes first, as in lock_link_creator.
create or replace function windlass.end_links(of_tenant uuid, by_user uuid) returns void
language sql
set search_path = pg_catalog, windlass, pg_temp
as $$
  delete from windlass.invitations i where i.tenant_id = of_tenant and i.created_by = 'user:' || by_user;
  delete from windlass.password_resets r where r.by_tenant = of_tenant and r.created_by = 'user:' || by_user
$$;

-- Revokes the tokens that a member has created for the tenant, and those that these tokens have created: a token does not give
-- what its creator has lost. After a demotion only tokens with more than `left_role` end; null ends all. A token of a
-- worker needs an administrator.
-- Lock order: the creator's membership comes first, so that no token of this member is created meanwhile.
create or replace function windlass.end_tokens(of_tenant uuid, by_user uuid, left_role text) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  ended text;
begin
  for ended in
    with recursive created (id, role, scopes) as (
      select t.id, t.role, t.scopes from windlass.api_tokens t
       where t.tenant_id = of_tenant and t.created_by = 'user:' || by_user
      union
      select t.id, t.role, t.scopes
        from created c join windlass.api_tokens t on t.tenant_id = of_tenant and t.created_by = 'token:' || c.id)
    select c.id from created c
     where left_role is null or windlass.role_rank(c.role, c.scopes) > windlass.role_rank(left_role, null) order by c.id
  loop
    perform windlass.revoke_token(of_tenant, ended);
  end loop;
end
$$;

-- Orders roles by their permissions, for a token also by its scopes: 1 for what a viewer has, 2 for an operator, 3 for an
-- administrator. The twin of Role::may.
create or replace function windlass.role_rank(role text, scopes text[]) returns integer
language sql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select least(case role when 'viewer' then 1 when 'operator' then 2 else 3 end,
    case when scopes is null then 3 when scopes <@ array['jobs:read', 'triggers:read', 'events:read'] then 1
         when scopes <@ array['jobs:read', 'triggers:read', 'events:read', 'jobs:write', 'events:emit'] then 2 else 3 end)
$$;

-- Refuses (WL007) a role that no member can have.
create or replace function windlass.check_role(role text) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if coalesce(role not in ('viewer', 'operator', 'tenant_admin'), true) then
    raise exception 'role must be viewer, operator or tenant_admin' using errcode = 'WL007', column = 'role';
  end if;
end
$$;

-- Changes the role of a member, and ends the links that they have created, and the tokens that exceed the role.
-- Returns the member, or null if there is none.
create or replace function windlass.set_member_role(of_tenant uuid, of_user uuid, new_role text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.tenant_for(of_tenant);
  perform windlass.check_role(new_role);
  was := windlass.lock_member(of_tenant, of_user);
  update windlass.members m set role = new_role, updated_at = now()
   where m.tenant_id = of_tenant and m.user_id = of_user and m.role is distinct from new_role;
  if found then
    perform windlass.end_links(of_tenant, of_user);
    perform windlass.record_act(of_tenant, 'member.role', of_user::text, was, windlass.shown_member(of_tenant, of_user));
    perform windlass.end_tokens(of_tenant, of_user, new_role);
  end if;
  return windlass.shown_member(of_tenant, of_user);
end
$$;

-- The members of a tenant.
create or replace function windlass.members_of(of_tenant uuid) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  return query select windlass.shown_member(m.tenant_id, m.user_id) from windlass.members m
    where m.tenant_id = of_tenant order by m.created_at, m.user_id;
end
$$;

-- Removes a member, with the links and tokens that they have created, and the link to reset their password.
-- Returns the removed member, or null.
create or replace function windlass.remove_member(of_tenant uuid, of_user uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.tenant_for(of_tenant);
  was := windlass.lock_member(of_tenant, of_user);
  delete from windlass.members m where m.tenant_id = of_tenant and m.user_id = of_user;
  if found then
    perform windlass.end_links(of_tenant, of_user);
    delete from windlass.password_resets r where r.by_tenant = of_tenant and r.user_id = of_user;
    perform windlass.record_act(of_tenant, 'member.remove', of_user::text, was);
    perform windlass.end_tokens(of_tenant, of_user, null);
  end if;
  return was;
end
$$;

-- A person by their email address, for signing in, with the hash of their password.
create or replace function windlass.find_user(of_email text) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(u) from windlass.users u where u.email = lower(of_email)
$$;
