-- Takes an Idempotency-Key for a request with this fingerprint. Returns null if the key is new; then the caller
-- continues and stores the response with answer_request in the same transaction. Otherwise returns the stored response.
-- Waits for a first request that is still in progress: if it fails, this call gets the key.
create or replace function windlass.remember_request(for_tenant uuid, with_key text, with_fingerprint bytea) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  known record;
begin
  perform windlass.tenant_for(for_tenant);
  if for_tenant is distinct from '00000000-0000-0000-0000-000000000000' then
    perform windlass.check_tenant_exists(for_tenant); -- the row would stay
  end if;
  perform windlass.check_not_null(jsonb_build_object('with_key', with_key, 'with_fingerprint', with_fingerprint));
  loop
    insert into windlass.request_keys (tenant_id, request_key, fingerprint) values (for_tenant, with_key, with_fingerprint)
      on conflict do nothing;
    if found then
      return null;
    end if;
    select k.fingerprint, k.status, k.answer into known from windlass.request_keys k
     where k.tenant_id = for_tenant and k.request_key = with_key;
    if found and known.fingerprint <> with_fingerprint then
      raise exception 'the idempotency key was already used for a different request' using errcode = 'WL009', detail = with_key;
    elsif found then
      return jsonb_build_object('status', known.status, 'answer', known.answer);
    end if; -- pruned between the two statements: try again
  end loop;
end
$$;

-- Stores the response to a request with an Idempotency-Key. A stored response is never changed.
create or replace function windlass.answer_request(for_tenant uuid, with_key text, with_status integer, with_answer jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  perform windlass.tenant_for(for_tenant);
  update windlass.request_keys k set status = with_status, answer = with_answer
   where k.tenant_id = for_tenant and k.request_key = with_key and k.status is null and k.answer is null;
end
$$;
