-- Revokes a token; processes that cache it check again within seconds. Returns the token, or null if there is none.
create or replace function windlass.revoke_token(of_tenant uuid, of_id text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.tenant_for(of_tenant);
  perform from windlass.api_tokens t where t.tenant_id = of_tenant and t.id = of_id for no key update;
  was := windlass.shown_token(of_tenant, of_id);
  update windlass.api_tokens t set revoked_at = now() where t.tenant_id = of_tenant and t.id = of_id and t.revoked_at is null;
  if found then
    perform windlass.record_act(of_tenant, 'token.revoke', of_id, was, windlass.shown_token(of_tenant, of_id));
  end if;
  return windlass.shown_token(of_tenant, of_id);
end
$$;
