-- Makes a tenant, or answers the one with that slug.
create or replace function windlass.ensure_tenant(slug text, name text, weight integer) returns uuid
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  insert into windlass.tenants as t (slug, name, weight) values ($1, $2, $3)
    on conflict (slug) do update set name = excluded.name, weight = excluded.weight, updated_at = now()
  returning t.id
$$;
