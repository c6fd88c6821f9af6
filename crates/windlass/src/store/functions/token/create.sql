-- Creates a token: see store_token.
create or replace function windlass.create_token(for_tenant uuid, token jsonb, hash bytea) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  made constant jsonb := windlass.store_token(for_tenant, token, hash);
begin
  if made is not null then
    perform windlass.record_act(for_tenant, 'token.create', made ->> 'id', null, made);
  end if;
  return made;
end
$$;

-- Stores a token. Only `hash` is kept of its secret. The nil tenant is the installation. Returns the token without the
-- hash. No other token of the installation has its id (api_tokens_by_id). A tenant has at most 1000 valid tokens and 1000
-- that have ended: the oldest of those is deleted here, but stays in the audit trail. Returns null if the creator has lost
-- access since the request was authenticated, or has another role now than the caller that the server names.
-- Lock order: the gate `tokens` of the tenant, so that the limit is exact; then the creator. In the opposite order, two
-- rotations of one token by itself would deadlock.
create or replace function windlass.store_token(for_tenant uuid, token jsonb, hash bytea) returns jsonb
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  creator jsonb;
begin
  perform windlass.tenant_for(for_tenant);
  perform windlass.check_read_committed();
  if for_tenant is distinct from '00000000-0000-0000-0000-000000000000'
      and not exists (select from windlass.tenants t where t.id = for_tenant and t.status <> 'deleting') then
    raise exception 'tenant % not found', coalesce(for_tenant::text, 'null')
      using errcode = 'WL003', detail = coalesce(for_tenant::text, '');
  end if;
  perform windlass.check_token(for_tenant, token);
  perform windlass.check_not_null(jsonb_build_object('hash', hash));
  perform windlass.lock_gate(for_tenant, 'tokens');
  creator := windlass.lock_link_creator(for_tenant, windlass.actor_for(token ->> 'created_by'));
  if creator is null or creator ->> 'role' <> nullif(current_setting('windlass.actor', true), '')::jsonb ->> 'role' then
    return null;
  end if;
  if (select count(*) from windlass.api_tokens t where t.tenant_id = for_tenant and windlass.is_valid(t)) >= 1000 then
    raise exception 'the tenant has 1000 valid tokens; revoke some first' using errcode = 'WL005', column = 'name';
  end if;
  delete from windlass.api_tokens t where t.tenant_id = for_tenant and t.id = any (array(
    select x.id from windlass.api_tokens x where x.tenant_id = for_tenant and not windlass.is_valid(x)
     order by coalesce(x.revoked_at, x.expires_at) desc, x.id offset 999));
  perform windlass.check_instant('expires_at', (token ->> 'expires_at')::timestamptz);
  insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, scopes, created_by, expires_at)
    select for_tenant, n.id, n.kind, n.name, hash, n.role, n.scopes, windlass.actor_for(n.created_by), n.expires_at
      from jsonb_to_record(token) n (id text, kind text, name text, role text, scopes text[], created_by text, expires_at timestamptz)
    on conflict do nothing;
  if not found then
    perform windlass.raise_used('id', 'api_tokens_by_id');
  end if;
  return windlass.shown_token(for_tenant, token ->> 'id');
end
$$;

-- Refuses (WL007) a token that does not exist in this form, or that a list of tokens could not show.
drop function if exists windlass.check_token(jsonb); -- of earlier builds
create or replace function windlass.check_token(for_tenant uuid, token jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  kind constant text := coalesce(token ->> 'kind', '');
  role constant text := coalesce(token ->> 'role', '');
  field constant text := case
    when kind not in ('api', 'worker', 'admin') then 'kind'
    when role not in ('viewer', 'operator', 'tenant_admin', 'worker', 'super_admin')
      or (kind = 'admin') <> (role = 'super_admin') or (kind = 'worker') <> (role = 'worker')
      or role <> 'worker' and (for_tenant = '00000000-0000-0000-0000-000000000000') <> (role = 'super_admin') then 'role'
    when jsonb_typeof(coalesce(token -> 'scopes', 'null')) not in ('null', 'array')
      or jsonb_path_exists(token, 'strict $.scopes[*] ? (@.type() != "string" || @ like_regex "^.{101}")', '{}', true)
      or jsonb_typeof(token -> 'scopes') = 'array' and jsonb_array_length(token -> 'scopes') > 100 then 'scopes' end;
begin
  perform windlass.check_texts(jsonb_build_object('id', token ->> 'id'), 1, 500);
  perform windlass.check_texts(jsonb_build_object('name', left(token ->> 'name', 201)), 1, 200);
  if field is not null then
    raise exception 'the role must be one of the kind, and scopes at most 100 texts of 100 characters'
      using errcode = 'WL007', column = field;
  end if;
end
$$;

-- Whether the token is valid.
create or replace function windlass.is_valid(token windlass.api_tokens) returns boolean
language sql stable
as $$
  select token.revoked_at is null and coalesce(token.expires_at operator(pg_catalog.>) pg_catalog.clock_timestamp(), true)
$$;

-- One token as the API returns it, without the hash.
create or replace function windlass.shown_token(of_tenant uuid, of_id text) returns jsonb
language sql stable
as $$
  select to_jsonb(t) - 'secret_hash' from windlass.api_tokens t where t.tenant_id = of_tenant and t.id = of_id
$$;
