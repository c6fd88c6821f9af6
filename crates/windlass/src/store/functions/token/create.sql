-- Writes a token whose secret only its maker has seen: `hash` is all that is kept of it. The nil tenant is the
-- installation. Answers the token as it is shown, without the hash.
create or replace function windlass.create_token(for_tenant uuid, token jsonb, hash bytea) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(for_tenant);
  if for_tenant <> '00000000-0000-0000-0000-000000000000'
      and not exists (select from windlass.tenants t where t.id = for_tenant and t.status <> 'deleting') then
    raise exception 'the tenant % is unknown', for_tenant using errcode = 'WL003', detail = for_tenant::text;
  end if;
  insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, scopes, created_by, expires_at)
    select for_tenant, n.id, n.kind, n.name, hash, n.role, n.scopes, n.created_by, n.expires_at
      from jsonb_to_record(token) n (id text, kind text, name text, role text, scopes text[], created_by text, expires_at timestamptz);
  return windlass.shown_token(for_tenant, token ->> 'id');
end
$$;

-- One token as people may see it.
create or replace function windlass.shown_token(of_tenant uuid, of_id text) returns jsonb
language sql stable
as $$
  select to_jsonb(t) - 'secret_hash' from windlass.api_tokens t where t.tenant_id = of_tenant and t.id = of_id
$$;
