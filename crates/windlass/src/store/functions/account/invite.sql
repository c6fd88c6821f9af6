-- An open invitation as the tenant sees it. Does not reveal whether the address has an account.
create or replace function windlass.shown_invitation(of_tenant uuid, of_id uuid) returns jsonb
language sql stable
as $$
  select to_jsonb(i) operator(pg_catalog.-) 'secret_hash'
    from windlass.invitations i
   where i.tenant_id operator(pg_catalog.=) of_tenant and i.id operator(pg_catalog.=) of_id
$$;

-- Offers an address a membership for `seconds`. A second invitation of the same address replaces the first, whose link
-- becomes invalid. Refuses an address that is already a member, and more than 1000 open invitations.
create or replace function windlass.create_invitation(of_tenant uuid, fields jsonb, hash bytea, seconds integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  address text := lower(fields ->> 'email');
  made uuid;
begin
  if seconds not between 0 and 2592000 then
    perform windlass.raise_span('seconds', 0, 2592000);
  end if;
  perform windlass.tenant_for(of_tenant);
  perform windlass.check_not_null(jsonb_build_object('hash', hash, 'seconds', seconds));
  if coalesce(address !~ '^[^@[:space:]]+@[^@[:space:]]+$' or length(address) > 320, true) then
    raise exception 'email must be an address of at most 320 characters' using errcode = 'WL007', column = 'email';
  end if;
  perform windlass.check_role(fields ->> 'role');
  if not exists (select from windlass.tenants t where t.id = of_tenant and t.status <> 'deleting') then
    raise exception 'tenant % not found', of_tenant using errcode = 'WL003', detail = coalesce(of_tenant::text, '');
  end if;
  if exists (select from windlass.members m join windlass.users u on u.id = m.user_id where m.tenant_id = of_tenant
    and u.email = address) then
    raise exception 'is already a member; change the role instead' using errcode = 'WL005', column = 'email';
  end if;
  perform windlass.take_turn(of_tenant, 'invitations'); -- otherwise concurrent calls exceed the limit
  delete from windlass.invitations i where i.tenant_id = of_tenant and (i.expires_at <= clock_timestamp() or i.email = address);
  if (select count(*) from windlass.invitations i where i.tenant_id = of_tenant) >= 1000 then
    raise exception 'the tenant has 1000 open invitations; revoke some first' using errcode = 'WL005', column = 'email';
  end if;
  insert into windlass.invitations (tenant_id, email, role, secret_hash, created_by, expires_at)
    values (of_tenant, address, fields ->> 'role', hash, windlass.actor_for(fields ->> 'created_by'),
            clock_timestamp() + make_interval(secs => seconds))
    returning id into made;
  perform windlass.record_act(of_tenant, 'invitation.create', made::text, null, windlass.shown_invitation(of_tenant, made));
  return windlass.shown_invitation(of_tenant, made);
end
$$;

-- The open invitations of a tenant.
create or replace function windlass.invitations_of(of_tenant uuid) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  return query select windlass.shown_invitation(i.tenant_id, i.id) from windlass.invitations i
    where i.tenant_id = of_tenant and i.expires_at > clock_timestamp() order by i.created_at, i.id;
end
$$;

-- Returns the deleted invitation, or null.
create or replace function windlass.revoke_invitation(of_tenant uuid, of_id uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.tenant_for(of_tenant);
  was := windlass.shown_invitation(of_tenant, of_id);
  delete from windlass.invitations i where i.tenant_id = of_tenant and i.id = of_id;
  if found then
    perform windlass.record_act(of_tenant, 'invitation.revoke', of_id::text, was);
  end if;
  return was;
end
$$;
