-- What the creator of a link (an invitation or a password reset) or of a token may do now: the role and scopes of the token, or
-- the role of the member, that `by_actor` names. Null if it was revoked, has expired or was removed, or if the tenant is being
-- deleted. An empty object for a creator
-- without a row here: a JWT, whose links expire with it, or the command line. The token or the
-- membership is locked until the transaction ends, so a revocation that is committed first is seen, and a later one waits until the link
-- was used. An account is not locked: two people who accept each other's links would deadlock.
-- Lock order: before the account of the link, and after the gate `tokens`.
create or replace function windlass.lock_link_creator(of_tenant uuid, by_actor text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  creator_id text := substr(by_actor, strpos(by_actor, ':') + 1);
  found_creator jsonb;
begin
  perform windlass.check_read_committed();
  perform windlass.tenant_for(of_tenant);
  if not windlass.accepts_links(of_tenant) then
    return null;
  end if;
  if by_actor like 'token:%' then
    select jsonb_build_object('role', t.role, 'scopes', t.scopes) into found_creator from windlass.api_tokens t
     where t.tenant_id in (of_tenant, '00000000-0000-0000-0000-000000000000') and t.id = creator_id and windlass.is_valid(t) for share;
  elsif by_actor ~ '^user:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    select jsonb_build_object('role', 'super_admin') into found_creator from windlass.users u
     where u.id = creator_id::uuid and u.is_active and u.is_super_admin;
    if not found then
      select jsonb_build_object('role', m.role) into found_creator from windlass.members m
       where m.tenant_id = of_tenant and m.user_id = creator_id::uuid
         and exists (select from windlass.users u where u.id = m.user_id and u.is_active) for share;
    end if;
  else
    found_creator := '{}';
  end if;
  return found_creator;
end
$$;

-- Whether links and tokens of this tenant may still be created and used: it is not being deleted. The nil tenant is the
-- installation.
create or replace function windlass.accepts_links(of_tenant uuid) returns boolean
language sql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select of_tenant = '00000000-0000-0000-0000-000000000000'
      or exists (select from windlass.tenants t where t.id = of_tenant and t.status <> 'deleting')
$$;
