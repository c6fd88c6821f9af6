-- Sets a person's new password and ends their other sessions, if the old hash is still the one that was compared: of two
-- changes at once, the second has compared with a password that is gone. Answers whether it was set.
create or replace function windlass.change_password(of_user uuid, old_hash text, new_hash text, keep_session bytea) returns boolean
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  update windlass.users u set password_hash = new_hash, updated_at = now()
   where u.id = of_user and u.is_active and u.password_hash = old_hash;
  if not found then
    return false;
  end if;
  delete from windlass.sessions s where s.user_id = of_user and s.secret_hash is distinct from keep_session;
  delete from windlass.password_resets r where r.user_id = of_user;
  return true;
end
$$;

-- Whether an administrator of this tenant may reset this account's password: the account is a member there and nowhere
-- else, and no super-admin. The password opens every tenant of an account, so an administrator of one of two may not.
-- The installation (nil) may reset every account.
create or replace function windlass.may_reset(of_tenant uuid, of_user uuid) returns boolean
language sql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select of_tenant = '00000000-0000-0000-0000-000000000000' or (
    exists (select from windlass.members m where m.user_id = of_user and m.tenant_id = of_tenant)
    and not exists (select from windlass.members m where m.user_id = of_user and m.tenant_id <> of_tenant)
    and not exists (select from windlass.users u where u.id = of_user and u.is_super_admin))
$$;

-- Makes a link that sets a new password, valid for `seconds`; an older one of the same account ends. Null if there is no
-- such account or this tenant may not reset it: the caller cannot tell which.
create or replace function windlass.create_password_reset(of_tenant uuid, of_user uuid, hash bytea, seconds integer, by_actor text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  made jsonb;
begin
  perform windlass.need_read_committed();
  perform windlass.tenant_for(of_tenant);
  perform from windlass.users u where u.id = of_user for update;
  if not found or not windlass.may_reset(of_tenant, of_user) then
    return null;
  end if;
  delete from windlass.password_resets r where r.expires_at <= clock_timestamp();
  insert into windlass.password_resets as r (user_id, by_tenant, secret_hash, created_by, expires_at)
    values (of_user, of_tenant, hash, by_actor, clock_timestamp() + make_interval(secs => seconds))
    on conflict (user_id) do update set by_tenant = excluded.by_tenant, secret_hash = excluded.secret_hash,
      created_by = excluded.created_by, created_at = now(), expires_at = excluded.expires_at
    returning jsonb_build_object('user_id', r.user_id, 'expires_at', r.expires_at) into made;
  return made;
end
$$;

-- The account whose password a link may set, or null: for the page that the link opens.
create or replace function windlass.find_password_reset(hash bytea) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select jsonb_build_object('user_id', u.id, 'email', u.email, 'tenant_id', r.by_tenant)
    from windlass.password_resets r join windlass.users u on u.id = r.user_id and u.is_active
   where r.secret_hash = hash and r.expires_at > clock_timestamp() and windlass.may_reset(r.by_tenant, r.user_id)
$$;

-- Uses a link: sets the password, ends every session of the account and the link itself. Answers the account's id, or null
-- if the link is gone or whoever made it may not reset this account any more. Locks the account first: an invitation that
-- is accepted at the same moment locks it too, so the check sees every membership.
create or replace function windlass.reset_password(hash bytea, new_hash text) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  person uuid;
begin
  perform windlass.need_read_committed();
  select u.id into person from windlass.users u
   where u.id = (select r.user_id from windlass.password_resets r where r.secret_hash = hash) and u.is_active for update;
  delete from windlass.password_resets r
   where r.user_id = person and r.secret_hash = hash and r.expires_at > clock_timestamp() and windlass.may_reset(r.by_tenant, person);
  if not found then
    return null;
  end if;
  update windlass.users u set password_hash = new_hash, updated_at = now() where u.id = person;
  delete from windlass.sessions s where s.user_id = person;
  return person;
end
$$;
