-- The open invitation of a link's secret, with the tenant's name, for the holder of the link. Null if it was accepted,
-- revoked or replaced, has expired, or its tenant is being deleted.
create or replace function windlass.find_invitation(hash bytea) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select (to_jsonb(i) - 'secret_hash') || jsonb_build_object('tenant_name', t.name)
    from windlass.invitations i join windlass.tenants t on t.id = i.tenant_id and t.status <> 'deleting'
   where i.secret_hash = hash and i.expires_at > clock_timestamp()
$$;

-- Accepts an invitation as the person of a session, whose account must have the invited address. Returns the member, or
-- null if the invitation or the session does not exist, or the account has another address. The session is checked
-- again after the account is locked: a password reset locks the account too and ends its sessions, so a person who has
-- just lost the account cannot add it to a tenant. The invitation is deleted, so it can be used only once. The session works with the
-- new tenant from then on.
-- Lock order: the account, then the invitation, then the member, then the session.
create or replace function windlass.accept_invitation(of_tenant uuid, hash bytea, of_session bytea) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  person record;
  accepted record;
  made jsonb;
begin
  perform windlass.check_read_committed();
  perform windlass.tenant_for(of_tenant);
  select u.id, u.email into person from windlass.users u
   where u.id = (select s.user_id from windlass.sessions s where s.secret_hash = of_session) and u.is_active for update;
  if not found or not exists (select from windlass.sessions s
      where s.secret_hash = of_session and s.user_id = person.id and s.expires_at > clock_timestamp()) then
    return null;
  end if;
  delete from windlass.invitations i
   where i.tenant_id = of_tenant and i.secret_hash = hash and i.email = person.email and i.expires_at > clock_timestamp()
   returning i.id, i.role into accepted;
  if not found then
    return null;
  end if;
  made := windlass.make_member(of_tenant, person.id, accepted.role);
  update windlass.sessions s set chosen_tenant = of_tenant where s.secret_hash = of_session;
  perform windlass.record_act(of_tenant, 'invitation.accept', accepted.id::text, null, made);
  return made;
end
$$;

-- Creates an account for the invited address and accepts the invitation for it. Returns the member, or null if the
-- invitation does not exist or the address already has an account: an invitation never sets the password of an existing
-- account.
create or replace function windlass.accept_invitation_as_new(of_tenant uuid, hash bytea, account uuid, account_name text,
  new_password_hash text)
returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  invited record;
  made jsonb;
begin
  perform windlass.tenant_for(of_tenant);
  perform windlass.check_not_null(jsonb_build_object('account', account));
  perform windlass.check_texts(jsonb_build_object('account_name', account_name), 0, 500);
  select i.id, i.email into invited from windlass.invitations i
   where i.tenant_id = of_tenant and i.secret_hash = hash and i.expires_at > clock_timestamp();
  if not found then
    return null;
  end if;
  insert into windlass.users (id, email, name, password_hash) values (account, invited.email, account_name, new_password_hash)
    on conflict (email) do nothing;
  if not found then
    return null;
  end if;
  delete from windlass.invitations i where i.tenant_id = of_tenant and i.id = invited.id and i.secret_hash = hash
   returning i.id, i.role into invited;
  if not found then
    -- Revoked meanwhile: delete the account again.
    delete from windlass.users u where u.id = account;
    return null;
  end if;
  made := windlass.make_member(of_tenant, account, invited.role);
  perform windlass.record_act(of_tenant, 'invitation.accept', invited.id::text, null, made);
  return made;
end
$$;

-- The last step of both functions. An existing member keeps their role, because an administrator may have changed it
-- since.
create or replace function windlass.make_member(of_tenant uuid, of_user uuid, of_role text) returns jsonb
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  insert into windlass.members (tenant_id, user_id, role) values (of_tenant, of_user, of_role) on conflict (tenant_id, user_id) do nothing;
  return windlass.shown_member(of_tenant, of_user);
end
$$;
