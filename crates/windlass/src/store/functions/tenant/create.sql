-- Makes a tenant, or answers the one with that slug. With a tenant in force only that one can be named.
create or replace function windlass.ensure_tenant(slug text, name text, weight integer) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  made uuid;
begin
  if windlass.current_tenant() is not null then
    perform windlass.tenant_for(coalesce((select t.id from windlass.tenants t where t.slug = $1), '00000000-0000-0000-0000-000000000000'));
  end if;
  insert into windlass.tenants as t (slug, name, weight) values ($1, $2, $3)
    on conflict (slug) do update set name = excluded.name, weight = excluded.weight, updated_at = now()
  returning t.id into made;
  return made;
end
$$;
