-- Creates a tenant. Refuses an existing slug, which `ensure_tenant` would update. `id` can be chosen, and not be changed later.
create or replace function windlass.create_tenant(fields jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  made uuid;
begin
  perform windlass.check_no_tenant('the list of tenants');
  -- A missing field is refused like an empty one.
  perform windlass.check_tenant_fields('{"name": "", "slug": ""}' || fields - 'id');
  if fields ->> 'id' is not null and not windlass.is_of_type(fields ->> 'id', 'uuid') then
    raise exception 'id must be a UUID' using errcode = 'WL007', column = 'id';
  end if;
  perform windlass.check_tenant_id((fields ->> 'id')::uuid, fields ->> 'slug');
  insert into windlass.tenants (id, slug, name, weight, timezone, max_queued, max_running, requests_per_minute,
      max_lanes, max_queue_names, max_triggers)
    select coalesce(n.id, gen_random_uuid()), n.slug, n.name, coalesce(n.weight, 1), coalesce(n.timezone, 'UTC'), n.max_queued,
           n.max_running, n.requests_per_minute,
           coalesce(n.max_lanes, 1000), coalesce(n.max_queue_names, 200), coalesce(n.max_triggers, 1000)
      from jsonb_to_record(fields) n (id uuid, slug text, name text, weight integer, timezone text, max_queued bigint, max_running integer,
        requests_per_minute integer, max_lanes integer, max_queue_names integer, max_triggers integer)
    on conflict do nothing
  returning id into made;
  if not found then
    perform windlass.check_tenant_id((fields ->> 'id')::uuid, fields ->> 'slug'); -- again: it was created meanwhile
    perform windlass.raise_used('slug', 'tenants_slug_unique');
  end if;
  if fields ->> 'max_queued' is not null then
    perform windlass.watch_tenants();
  end if;
  perform windlass.record_act(null, 'tenant.create', made::text, null, windlass.shown_tenant(made));
  return windlass.shown_tenant(made);
end
$$;

-- Refuses (WL007) unknown and invalid fields of a tenant, with the field's name.
create or replace function windlass.check_tenant_fields(fields jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  refused record;
begin
  if jsonb_typeof(fields) is distinct from 'object' then
    raise exception 'a tenant must be a JSON object' using errcode = 'WL007', column = 'fields';
  end if;
  select f.* into refused from jsonb_each(fields) f where not case f.key
      when 'slug' then windlass.is_slug(f.value #>> '{}') and jsonb_typeof(f.value) = 'string'
      when 'name' then jsonb_typeof(f.value) = 'string' and octet_length(f.value #>> '{}') between 1 and 500
      when 'status' then f.value in ('"active"', '"suspended"') -- mark_tenant_deleting has more to check
      when 'weight' then f.value = 'null' or windlass.is_whole(f.value, 1, 1000)
      when 'timezone' then f.value = 'null' or jsonb_typeof(f.value) = 'string' and windlass.is_time_zone(f.value #>> '{}')
      when 'max_queued' then f.value = 'null' or windlass.is_whole(f.value, 0, 1000000000)
      when 'max_running' then f.value = 'null' or windlass.is_whole(f.value, 1, 1000000)
      when 'max_lanes' then f.value = 'null' or windlass.is_whole(f.value, 1, 100000)
      when 'max_queue_names' then f.value = 'null' or windlass.is_whole(f.value, 1, 100000)
      when 'max_triggers' then f.value = 'null' or windlass.is_whole(f.value, 1, 100000)
      when 'requests_per_minute' then f.value = 'null' or windlass.is_whole(f.value, 1, 10000000)
      else false end
    limit 1;
  if found then
    raise exception '% cannot be %', refused.key, left(refused.value::text, 100) using errcode = 'WL007', column = left(refused.key, 100);
  end if;
end
$$;

-- Tenants are named by slug or by id, so a slug must not be the text of an id, in any form that is read as one.
create or replace function windlass.is_slug(slug text) returns boolean
language sql immutable
return slug ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and replace(slug, '-', '') !~ '^[0-9a-f]{32}$';

-- A tenant as the API returns it.
create or replace function windlass.shown_tenant(of_id uuid) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(t) - 'purge_barrier' - 'purge_checked_at' - 'quota_left' from windlass.tenants t where t.id = windlass.tenant_for(of_id)
$$;

-- Changes the given fields. A limit that is given as null is removed, or reset to its default if it has one. A tenant
-- that is being deleted stays so, except the default tenant, which earlier builds let an operator mark. A tenant that is as
-- requested keeps its time of change, and nothing is recorded.
-- Returns null if there is none. Waits at most three seconds for a transaction that has locked the tenant's row, which an
-- application can keep open: one that enqueued with a fixed snapshot (see check_tenants_active), or under a quota.
create or replace function windlass.change_tenant(of_id uuid, fields jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.check_no_tenant('the list of tenants');
  perform windlass.tenant_for(of_id);
  perform windlass.check_tenant_fields(fields);
  -- Locked first: an update that waits for the row would see concurrent changes in it, but not in the row that it is
  -- joined with.
  perform from windlass.tenants t where t.id = of_id for no key update;
  was := windlass.shown_tenant(of_id);
  update windlass.tenants t
     set slug = n.slug, name = n.name, weight = coalesce(n.weight, 1), timezone = coalesce(n.timezone, 'UTC'), max_queued = n.max_queued,
         max_running = n.max_running, requests_per_minute = n.requests_per_minute, max_lanes = coalesce(n.max_lanes, 1000),
         max_queue_names = coalesce(n.max_queue_names, 200), max_triggers = coalesce(n.max_triggers, 1000),
         status = case when t.status = 'deleting' and of_id <> '00000000-0000-7000-8000-000000000001' then t.status else n.status end
    from (select p.* from windlass.tenants o cross join lateral jsonb_populate_record(o, fields) p where o.id = of_id) n
   where t.id = of_id;
  if windlass.shown_tenant(of_id) <> was then
    update windlass.tenants t set quota_left = null, updated_at = now() where t.id = of_id;
    if fields ->> 'max_queued' is not null then
      perform windlass.open_quota(of_id);
    end if;
    perform windlass.record_act(null, case when exists (select from jsonb_object_keys(fields) f (name) where not starts_with(f.name, 'max_')
        and f.name <> 'requests_per_minute') then 'tenant.change' else 'tenant.limits' end, of_id::text, was, windlass.shown_tenant(of_id));
    if fields ->> 'max_queued' is not null or fields ->> 'status' <> 'active' then
      perform windlass.watch_tenants();
    end if;
  end if;
  return windlass.shown_tenant(of_id);
exception
  when lock_not_available then
    perform windlass.raise_locked('the tenant');
  when unique_violation then -- another tenant has the slug, perhaps only since this call began
    perform windlass.raise_used('slug', 'tenants_slug_unique');
end
$$;

-- Marks a tenant for deletion: it accepts no more jobs, its tokens become invalid, and the keeper purges it in
-- batches.
create or replace function windlass.mark_tenant_deleting(of_id uuid) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  was jsonb;
begin
  perform windlass.check_no_tenant('the list of tenants');
  perform windlass.tenant_for(of_id);
  perform windlass.check_default_tenant(of_id);
  perform from windlass.tenants t where t.id = of_id for no key update;
  was := windlass.shown_tenant(of_id);
  update windlass.tenants t set status = 'deleting', updated_at = now() where t.id = of_id and t.status <> 'deleting';
  if found then
    perform windlass.record_act(null, 'tenant.delete', of_id::text, was, windlass.shown_tenant(of_id));
    perform windlass.watch_tenants();
  end if;
  return windlass.shown_tenant(of_id);
exception when lock_not_available then
  perform windlass.raise_locked('the tenant');
end
$$;

-- Deletes one batch of one tenant that is being deleted. Returns the number of deleted jobs, or -1 if there is no
-- tenant that can be processed. Tenants take turns, so one that waits or fails does not delay the others. The reason
-- why one cannot be processed is stored in its row: some of its data is under legal hold, or an error, after which it
-- is tried again in a minute. Does not wait for locks of open transactions.
create or replace function windlass.purge_deleted_tenants(most integer default 1000) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  held constant text := 'some of its data is under legal hold';
  tenant uuid;
  purged integer := 0;
  blocked text;
begin
  perform windlass.check_read_committed();
  update windlass.tenants t set purge_blocked = held
   where t.id = any (array(
     select d.id from windlass.tenants d
      where d.status = 'deleting' and d.purge_blocked is distinct from held
        and exists (select from windlass.legal_hold h where h.tenant_id = d.id) for update skip locked));
  select t.id into tenant from windlass.tenants t
   where t.status = 'deleting' and not exists (select from windlass.legal_hold h where h.tenant_id = t.id)
     and (t.purge_blocked is null or t.purge_blocked = held or t.purge_checked_at < clock_timestamp() - interval '1 min')
   order by t.purge_checked_at nulls first, t.id limit 1 for update skip locked;
  if not found then
    perform windlass.unwatch_tenants();
    return -1;
  end if;
  begin
    select p.purged into purged from windlass.purge_step(tenant, most, true) p;
  exception when query_canceled or others then -- others does not include a timeout, which would roll back the tenant's turn
    raise warning 'the tenant % cannot be deleted: %', tenant, sqlerrm;
    blocked := sqlerrm;
  end;
  update windlass.tenants t
     set purged_jobs = t.purged_jobs + purged, purge_checked_at = clock_timestamp(), purge_blocked = blocked
   where t.id = tenant;
  return purged;
end
$$;
