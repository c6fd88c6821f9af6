-- Creates a tenant, or updates and returns the one with that slug. With a current tenant, only that one can be named, and nothing can be
-- changed. Without one, a caller that serves one tenant at a time can create one too: so the row is read here, and not with shown_tenant.
create or replace function windlass.ensure_tenant(slug text, name text, weight integer) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  made uuid;
  was jsonb;
  became jsonb;
  internal constant text[] := array['purge_barrier', 'purge_looked_at', 'quota_room'];
begin
  if windlass.current_tenant() is not null then
    perform windlass.tenant_for(coalesce((select t.id from windlass.tenants t where t.slug = $1), '00000000-0000-0000-0000-000000000000'));
  end if;
  perform windlass.need_values(jsonb_build_object('weight', $3));
  perform windlass.refuse_tenant_fields(jsonb_build_object('slug', $1, 'name', $2, 'weight', $3));
  loop -- ends unless the tenant is created or deleted between the statements
    select to_jsonb(t) - internal into was from windlass.tenants t where t.slug = $1 for no key update;
    if found then
      if (was ->> 'name', (was ->> 'weight')::integer) is distinct from ($2, $3) then
        perform windlass.need_no_tenant('the list of tenants');
      end if;
      update windlass.tenants t set name = $2, weight = $3, updated_at = now()
       where t.slug = $1 and (t.name, t.weight) is distinct from ($2, $3) returning to_jsonb(t) - internal into became;
      exit;
    end if;
    insert into windlass.tenants as t (slug, name, weight) values ($1, $2, $3) on conflict (slug) do nothing
      returning to_jsonb(t) - internal into became;
    exit when found;
  end loop;
  made := coalesce(became, was) ->> 'id';
  if became is not null then
    perform windlass.record_act(null, case when was is null then 'tenant.create' else 'tenant.change' end, made::text, was, became);
  end if;
  return made;
exception when lock_not_available then
  perform windlass.refuse_locked('the tenant');
end
$$;
