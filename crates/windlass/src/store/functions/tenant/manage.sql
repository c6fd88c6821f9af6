-- Makes a tenant; one whose slug is there already is refused, where `ensure_tenant` would change it.
create or replace function windlass.create_tenant(fields jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  made uuid;
begin
  insert into windlass.tenants (slug, name, weight, timezone, max_queued, max_running, requests_per_minute)
    select n.slug, n.name, coalesce(n.weight, 1), coalesce(n.timezone, 'UTC'), n.max_queued, n.max_running, n.requests_per_minute
      from jsonb_to_record(fields) n (slug text, name text, weight integer, timezone text, max_queued bigint, max_running integer, requests_per_minute integer)
  returning id into made;
  return windlass.shown_tenant(made);
end
$$;

create or replace function windlass.shown_tenant(of_id uuid) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(t) - 'purge_barrier' from windlass.tenants t where t.id = of_id
$$;

-- Changes the fields given; a limit that is given as null is taken away. A tenant that is being deleted stays so. Answers null
-- if there is none.
create or replace function windlass.change_tenant(of_id uuid, fields jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  update windlass.tenants t
     set slug = n.slug, name = n.name, weight = n.weight, timezone = n.timezone, max_queued = n.max_queued, max_running = n.max_running,
         requests_per_minute = n.requests_per_minute, updated_at = now(),
         status = case when t.status = 'deleting' then t.status else n.status end
    from (select p.* from windlass.tenants o cross join lateral jsonb_populate_record(o, fields) p where o.id = of_id) n
   where t.id = of_id;
  return windlass.shown_tenant(of_id);
end
$$;

-- Marks a tenant for deletion: nothing enters any more, its credentials end, and the keeper purges it in batches.
create or replace function windlass.mark_tenant_deleting(of_id uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if of_id = '00000000-0000-7000-8000-000000000001' then
    raise exception 'the default tenant cannot be deleted' using errcode = 'WL003', detail = of_id::text;
  end if;
  update windlass.tenants t set status = 'deleting', updated_at = now() where t.id = of_id;
  insert into windlass.waiting (worker) values (-1) on conflict do nothing; -- see enqueue_routed
  return windlass.shown_tenant(of_id);
end
$$;

-- One batch of one tenant that is being deleted; how many jobs went, or -1 if no tenant is being deleted. A minute after the
-- last one nobody can know of its lanes any more, and the quick door need not look.
create or replace function windlass.purge_deleted_tenants(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  tenant uuid;
  step record;
begin
  select t.id into tenant from windlass.tenants t where t.status = 'deleting' order by t.updated_at limit 1 for update skip locked;
  if not found then
    if not exists (select from windlass.tenants t where t.status = 'deleting') then
      delete from windlass.waiting w where w.worker = -1
        and not exists (select from windlass.keeper_mark m where m.duty = 'tenant deleted' and m.reached > clock_timestamp() - interval '1 min');
    end if;
    return -1;
  end if;
  select * into step from windlass.purge_tenant(tenant, most);
  update windlass.tenants t set purged_jobs = t.purged_jobs + step.purged where t.id = tenant;
  return step.purged;
end
$$;
