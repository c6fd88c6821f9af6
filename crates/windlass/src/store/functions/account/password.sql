-- Sets a person's new password and ends their other sessions, if the old hash is still the stored one: of two
-- concurrent changes, the second was verified against a password that is no longer valid. Returns whether the password
-- was set. Needs read committed: a session that began after the snapshot was taken must end too.
create or replace function windlass.change_password(of_user uuid, old_hash text, new_hash text, keep_session bytea) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.check_read_committed();
  update windlass.users u set password_hash = new_hash, updated_at = now()
   where u.id = of_user and u.is_active and u.password_hash = old_hash;
  if not found then
    return false;
  end if;
  delete from windlass.sessions s where s.user_id = of_user and s.secret_hash is distinct from keep_session;
  delete from windlass.password_resets r where r.user_id = of_user;
  perform windlass.record_act(windlass.tenant_of_person(), 'password.change', of_user::text);
  return true;
end
$$;

-- Whether an administrator of this tenant may reset this account's password: the account is a member of this tenant
-- only, and not a super-admin. A password gives access to every tenant of the account, so an administrator of one of
-- two tenants may not, and neither may one of a tenant that is being deleted. The installation (the nil id) may reset
-- every account.
create or replace function windlass.may_reset(of_tenant uuid, of_user uuid) returns boolean
language sql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select of_tenant = '00000000-0000-0000-0000-000000000000' or (
    windlass.accepts_links(of_tenant)
    and exists (select from windlass.members m where m.user_id = of_user and m.tenant_id = of_tenant)
    and not exists (select from windlass.members m where m.user_id = of_user and m.tenant_id <> of_tenant)
    and not exists (select from windlass.users u where u.id = of_user and u.is_super_admin))
$$;

-- Creates a link that sets a new password, valid for `seconds`. Replaces an older link of the same account. Returns
-- null if there is no such account or the tenant may not reset it; the caller cannot distinguish these cases.
create or replace function windlass.create_password_reset(of_tenant uuid, of_user uuid, hash bytea, seconds integer,
  by_actor text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  made jsonb;
begin
  if seconds not between 0 and 2592000 then
    perform windlass.raise_span('seconds', 0, 2592000);
  end if;
  perform windlass.check_read_committed();
  perform windlass.tenant_for(of_tenant);
  perform windlass.check_not_null(jsonb_build_object('of_tenant', of_tenant, 'hash', hash, 'seconds', seconds));
  perform from windlass.users u where u.id = of_user for update;
  if not found or not windlass.may_reset(of_tenant, of_user) then
    return null;
  end if;
  delete from windlass.password_resets r where r.user_id = any (array( -- links of all tenants: does not wait for one in use
    select o.user_id from windlass.password_resets o where o.expires_at <= clock_timestamp() for update skip locked));
  insert into windlass.password_resets as r (user_id, by_tenant, secret_hash, created_by, expires_at)
    values (of_user, of_tenant, hash, windlass.actor_for(by_actor), clock_timestamp() + make_interval(secs => seconds))
    on conflict (user_id) do update set by_tenant = excluded.by_tenant, secret_hash = excluded.secret_hash,
      created_by = excluded.created_by, created_at = now(), expires_at = excluded.expires_at
    returning jsonb_build_object('user_id', r.user_id, 'expires_at', r.expires_at) into made;
  perform windlass.record_act(of_tenant, 'password.reset_link', of_user::text, null, made);
  return made;
end
$$;

-- An open password reset link as administrators see it. The tenant is the one whose administrator created it, nil for the
-- installation.
create or replace function windlass.shown_password_reset(of_user uuid) returns jsonb
language sql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select jsonb_build_object('user_id', r.user_id, 'email', u.email, 'tenant_id', r.by_tenant, 'created_by', r.created_by,
           'created_at', r.created_at, 'expires_at', r.expires_at)
    from windlass.password_resets r join windlass.users u on u.id = r.user_id where r.user_id = of_user
$$;

-- The open password reset links that administrators of a tenant have created; or all, if none is named and there is no
-- current one.
create or replace function windlass.password_resets_of(of_tenant uuid) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  of_tenant := coalesce(of_tenant, windlass.current_tenant());
  if of_tenant is not null then
    perform windlass.tenant_for(of_tenant);
  end if;
  return query select windlass.shown_password_reset(r.user_id) from windlass.password_resets r
    where (of_tenant is null or r.by_tenant = of_tenant) and r.expires_at > clock_timestamp() order by r.created_at, r.user_id;
end
$$;

-- Revokes the link of an account, if it is one of these. Returns the deleted link, or null.
create or replace function windlass.revoke_password_reset(of_tenant uuid, of_user uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  of_tenant := coalesce(of_tenant, windlass.current_tenant());
  if of_tenant is not null then
    perform windlass.tenant_for(of_tenant);
  end if;
  perform from windlass.password_resets r
    where r.user_id = of_user and (of_tenant is null or r.by_tenant = of_tenant) and r.expires_at > clock_timestamp() for update;
  if found then
    was := windlass.shown_password_reset(of_user);
    delete from windlass.password_resets r where r.user_id = of_user;
    perform windlass.record_act((was ->> 'tenant_id')::uuid, 'password.reset_revoke', of_user::text, was);
  end if;
  return was;
end
$$;

-- The account whose password a link may set, or null. For the page that the link opens.
create or replace function windlass.find_password_reset(hash bytea) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select jsonb_build_object('user_id', u.id, 'email', u.email, 'tenant_id', r.by_tenant, 'created_by', r.created_by)
    from windlass.password_resets r join windlass.users u on u.id = r.user_id and u.is_active
   where r.secret_hash = hash and r.expires_at > clock_timestamp() and windlass.may_reset(r.by_tenant, r.user_id)
$$;

-- Uses a link: sets the password and deletes the link and every session of the account. Returns the account's id, or
-- null if the link does not exist or its creator may no longer reset this account. Locks the account first: accepting
-- an invitation locks it too, so the check sees every membership.
create or replace function windlass.reset_password(hash bytea, new_hash text) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  person uuid;
begin
  perform windlass.check_read_committed();
  select u.id into person from windlass.users u
   where u.id = (select r.user_id from windlass.password_resets r where r.secret_hash = hash) and u.is_active for update;
  delete from windlass.password_resets r
   where r.user_id = person and r.secret_hash = hash and r.expires_at > clock_timestamp() and windlass.may_reset(r.by_tenant, person);
  if not found then
    return null;
  end if;
  update windlass.users u set password_hash = new_hash, updated_at = now() where u.id = person;
  delete from windlass.sessions s where s.user_id = person;
  perform windlass.record_act(windlass.tenant_of_person(), 'password.reset', person::text);
  return person;
end
$$;
