-- The tokens of a tenant, newest first, or of all tenants if none is named and there is no current one; or the one with
-- an id.
create or replace function windlass.tokens_of(of_tenant uuid, of_id text) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if of_tenant is not null then
    perform windlass.tenant_for(of_tenant);
  elsif windlass.current_tenant() is not null then
    of_tenant := windlass.tenant_for(windlass.current_tenant());
  end if;
  return query select windlass.shown_token(t.tenant_id, t.id) from windlass.api_tokens t
    where (of_tenant is null or t.tenant_id = of_tenant) and (of_id is null or t.id = of_id) order by t.created_at desc, t.id;
end
$$;
