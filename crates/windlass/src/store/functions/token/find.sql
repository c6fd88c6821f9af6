-- A token by its id, for authentication: before the tenant is known, hence a function. Records its use if the given
-- secret (as a hash; null for a session that was started with it) matches, and at most once a minute, so that a busy
-- token is not a hot row.
-- Index: api_tokens_by_id, which is unique: no other token has this id.
create or replace function windlass.find_token(of_id text, shown_hash bytea) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  found_token jsonb;
begin
  update windlass.api_tokens t set last_used_at = now()
   where t.id = of_id and (shown_hash is null or t.secret_hash = shown_hash)
     and (t.last_used_at is null or t.last_used_at < now() - interval '1 minute');
  select jsonb_build_object('tenant_id', t.tenant_id, 'id', t.id, 'kind', t.kind, 'name', t.name, 'role', t.role, 'scopes', t.scopes,
           'secret_hash', encode(t.secret_hash, 'hex'),
           'is_valid', windlass.is_valid(t) and coalesce(n.status <> 'deleting', true),
           'requests_per_minute', n.requests_per_minute,
           'expires_at', t.expires_at,
           'expires_in_ms', (extract(epoch from t.expires_at - clock_timestamp()) * 1000)::bigint)
    into found_token
    from windlass.api_tokens t left join windlass.tenants n on n.id = t.tenant_id
   where t.id = of_id
     and (n.id is not null or t.tenant_id = '00000000-0000-0000-0000-000000000000');
  return found_token;
end
$$;
