-- A token by the id it carries, for authentication: before any tenant is known, hence by a function. Notes that it was
-- used, at most once a minute, so that a busy token is not a hot row.
-- Index: api_tokens_by_id.
create or replace function windlass.find_token(of_id text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  found_token jsonb;
begin
  update windlass.api_tokens t set last_used_at = now()
   where t.id = of_id and (t.last_used_at is null or t.last_used_at < now() - interval '1 minute');
  select jsonb_build_object('tenant_id', t.tenant_id, 'id', t.id, 'kind', t.kind, 'name', t.name, 'role', t.role, 'scopes', t.scopes,
           'secret_hash', encode(t.secret_hash, 'hex'),
           'is_valid', t.revoked_at is null and coalesce(t.expires_at > clock_timestamp(), true) and coalesce(n.status <> 'deleting', true),
           'requests_per_minute', n.requests_per_minute,
           'expires_in_ms', (extract(epoch from t.expires_at - clock_timestamp()) * 1000)::bigint)
    into found_token
    from windlass.api_tokens t left join windlass.tenants n on n.id = t.tenant_id
   where t.id = of_id
     and (n.id is not null or t.tenant_id = '00000000-0000-0000-0000-000000000000') limit 1;
  return found_token;
end
$$;
