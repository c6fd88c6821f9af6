-- Revokes a token; processes that cache it check again within seconds. Returns the token, or null if there is none.
create or replace function windlass.revoke_token(of_tenant uuid, of_id text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  update windlass.api_tokens t set revoked_at = coalesce(t.revoked_at, now()) where t.tenant_id = of_tenant and t.id = of_id;
  if found then
    perform windlass.must_record(of_tenant, array['token.revoke'], of_id, null, windlass.shown_token(of_tenant, of_id));
  end if;
  return windlass.shown_token(of_tenant, of_id);
end
$$;

-- The old half of a rotation: the token stays valid for the overlap and then ends, and refers to its successor. Null if
-- there is none that can be replaced: it is not valid any more. A second rotation of the same token is refused: rotate its successor.
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
   where t.tenant_id = of_tenant and t.id = of_id and t.replaced_by is null and windlass.is_valid(t);
  if not found then
    return null;
  end if;
  perform windlass.must_record(of_tenant, array['token.rotate'], successor, null, windlass.shown_token(of_tenant, of_id));
  return windlass.shown_token(of_tenant, of_id);
end
$$;
