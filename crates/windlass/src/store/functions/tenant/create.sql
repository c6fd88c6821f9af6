-- Creates a tenant, or updates and returns the one with that slug. With a current tenant, only that one can be named, and nothing can be
-- changed. Without one, a caller that serves one tenant at a time can create one too: so the row is read here, and not with shown_tenant.
-- weight: null keeps it, or is 1 for a new tenant. id: of a new tenant, so that it can be the application's own; an existing tenant must
-- have it.
drop function if exists windlass.ensure_tenant(text, text, integer); -- of earlier builds
create or replace function windlass.ensure_tenant(slug text, name text, weight integer default null, id uuid default null) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  made uuid;
  was jsonb;
  became jsonb;
  internal constant text[] := array['purge_barrier', 'purge_checked_at', 'quota_left'];
begin
  if windlass.current_tenant() is not null then
    perform windlass.tenant_for(coalesce((select t.id from windlass.tenants t where t.slug = $1), '00000000-0000-0000-0000-000000000000'));
  end if;
  perform windlass.check_tenant_fields(jsonb_build_object('slug', $1, 'name', $2, 'weight', $3));
  loop -- ends unless the tenant, or another one with its id, is created or deleted between the statements
    perform windlass.check_tenant_id($4, $1);
    select to_jsonb(t) - internal into was from windlass.tenants t where t.slug = $1 for no key update;
    if found then
      if (was ->> 'id')::uuid <> $4 then
        raise exception 'the slug % belongs to the tenant %', $1, was ->> 'id' using errcode = 'WL007', column = 'id';
      elsif (was ->> 'name', (was ->> 'weight')::integer) is distinct from ($2, coalesce($3, (was ->> 'weight')::integer)) then
        perform windlass.check_no_tenant('the list of tenants');
      end if;
      update windlass.tenants t set name = $2, weight = coalesce($3, t.weight), updated_at = now()
       where t.slug = $1 and (t.name, t.weight) is distinct from ($2, coalesce($3, t.weight))
      returning to_jsonb(t) - internal into became;
      exit;
    end if;
    insert into windlass.tenants as t (id, slug, name, weight) values (coalesce($4, gen_random_uuid()), $1, $2, coalesce($3, 1))
      on conflict do nothing returning to_jsonb(t) - internal into became;
    exit when found;
  end loop;
  made := coalesce(became, was) ->> 'id';
  if became is not null then
    perform windlass.record_act(null, case when was is null then 'tenant.create' else 'tenant.change' end, made::text, was, became);
  end if;
  return made;
exception when lock_not_available then
  perform windlass.raise_locked('the tenant');
end
$$;

-- Refuses (WL007) an id for a tenant with this slug that stands for something else, is another tenant's, or was that of a deleted
-- tenant: its rows of the audit trail remain.
create or replace function windlass.check_tenant_id(id uuid, slug text) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  problem constant text := case
    when $1 in ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff') then 'must not be the nil or the max UUID'
    when exists (select from windlass.tenants t where t.id = $1 and t.slug <> $2) then 'is already in use'
    when exists (select from windlass.job_definitions d where d.id = $1) then 'is already in use' -- by the gates of a definition
    when not exists (select from windlass.tenants t where t.id = $1) and exists (
      select from windlass.audit a
       where a.tenant_id = $1
          or a.tenant_id = '00000000-0000-0000-0000-000000000000' and a.action = 'tenant.delete' and a.target = $1::text)
      then 'was that of a deleted tenant' end;
begin
  if problem is not null then
    raise exception 'id %', problem using errcode = 'WL007', column = 'id';
  end if;
end
$$;
