-- Revokes a token; processes that cache it check again within seconds. Returns the token, or null if there is none.
create or replace function windlass.revoke_token(of_tenant uuid, of_id text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(of_tenant);
  update windlass.api_tokens t set revoked_at = now() where t.tenant_id = of_tenant and t.id = of_id and t.revoked_at is null;
  if found then
    perform windlass.must_record(of_tenant, array['token.revoke'], of_id, null, windlass.shown_token(of_tenant, of_id));
  end if;
  return windlass.shown_token(of_tenant, of_id);
end
$$;

-- The old half of a rotation: the token stays valid for the overlap and then ends, and refers to its successor. Null if
-- there is none that can be replaced: it is not valid any more. A second rotation of the same token is refused: rotate its
-- successor, which is a token of the same tenant: the audit trail names the rotation by it. If the same transaction has
-- created it, the row of the rotation is also that of its creation.
create or replace function windlass.retire_token(of_tenant uuid, of_id text, successor text, overlap_seconds integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  was jsonb := windlass.shown_token(of_tenant, of_id);
begin
  if overlap_seconds not between 0 and 2592000 then
    perform windlass.refuse_span('overlap_seconds', 0, 2592000);
  end if;
  perform windlass.tenant_for(of_tenant);
  if successor = of_id or not exists (select from windlass.api_tokens t where t.tenant_id = of_tenant and t.id = successor) then
    raise exception 'the successor must be another token of the tenant' using errcode = 'WL005', column = 'successor';
  end if;
  update windlass.api_tokens t
     set replaced_by = successor,
         expires_at = least(t.expires_at, clock_timestamp() + make_interval(secs => overlap_seconds))
   where t.tenant_id = of_tenant and t.id = of_id and t.replaced_by is null and windlass.is_valid(t);
  if not found then
    return null;
  end if;
  delete from windlass.audit_due d where d.tenant_id = of_tenant and d.target = successor and 'token.rotate' = any (d.actions);
  perform windlass.must_record(of_tenant, array['token.rotate'], successor, was, windlass.shown_token(of_tenant, successor));
  return windlass.shown_token(of_tenant, of_id);
end
$$;
