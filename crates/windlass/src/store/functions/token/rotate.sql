-- Rotates a token: creates its successor (see store_token), and lets the old one stay valid for the overlap and then end. Returns the
-- successor, or null if the creator has lost access since the request was authenticated. Refuses (WL011) a token that cannot be replaced,
-- because it is no longer valid, or was rotated before: rotate its successor. One act, with one row in the audit trail: the old token
-- before, and the new one after.
-- Lock order: as in the creation of a token; then the old token.
create or replace function windlass.rotate_token(of_tenant uuid, of_id text, overlap_seconds integer, token jsonb, hash bytea) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  successor jsonb;
  was jsonb;
begin
  if overlap_seconds is null or overlap_seconds not between 0 and 2592000 then
    perform windlass.raise_span('overlap_seconds', 0, 2592000);
  end if;
  successor := windlass.store_token(of_tenant, token, hash);
  if successor is null then
    return null;
  end if;
  perform from windlass.api_tokens t where t.tenant_id = of_tenant and t.id = of_id for no key update;
  was := windlass.shown_token(of_tenant, of_id);
  update windlass.api_tokens t
     set replaced_by = successor ->> 'id',
         expires_at = least(t.expires_at, clock_timestamp() + make_interval(secs => overlap_seconds))
   where t.tenant_id = of_tenant and t.id = of_id and t.id <> successor ->> 'id' and t.replaced_by is null and windlass.is_valid(t);
  if not found then
    raise exception 'the token % does not exist, has expired, or was already revoked or rotated', left(quote_nullable(of_id), 100)
      using errcode = 'WL011', detail = 'token';
  end if;
  perform windlass.record_act(of_tenant, 'token.rotate', successor ->> 'id', was, successor);
  return successor;
end
$$;
drop function if exists windlass.retire_token(uuid, text, text, integer); -- of earlier builds
