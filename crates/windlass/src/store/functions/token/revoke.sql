-- Revokes a token; whoever remembers it asks again within seconds. Answers it as it is shown, or null if there is none.
create or replace function windlass.revoke_token(of_tenant uuid, of_id text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  update windlass.api_tokens t set revoked_at = coalesce(t.revoked_at, now()) where t.tenant_id = of_tenant and t.id = of_id;
  return windlass.shown_token(of_tenant, of_id);
end
$$;

-- The old half of a rotation: the token goes on for the overlap and then ends, and says which one came after it. Null if there
-- is none that could be replaced. A second rotation of the same token is refused: its successor is the one to rotate.
create or replace function windlass.retire_token(of_tenant uuid, of_id text, successor text, overlap_seconds integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  update windlass.api_tokens t
     set replaced_by = successor,
         expires_at = least(t.expires_at, clock_timestamp() + make_interval(secs => overlap_seconds))
   where t.tenant_id = of_tenant and t.id = of_id and t.replaced_by is null and t.revoked_at is null;
  if not found then
    return null;
  end if;
  return windlass.shown_token(of_tenant, of_id);
end
$$;
