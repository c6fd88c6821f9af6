-- Pending events, without a lock: dispatch_events guards their dispatch. Tenants take turns: up to most_tenants of
-- them, starting after after_tenant, each with an equal share of `most` events and most_bytes of payload, and at least
-- one event. Oldest first within a tenant; all returned events of a tenant have processed the same triggers. late_ms:
-- as in due_triggers. If there is no event, the dispatcher requests notifications for notify_ms.
-- Index: event_pending_of_tenant, one probe per tenant.
create or replace function windlass.pending_events(
  late_ms integer, most integer, notify_ms integer, most_bytes bigint, most_tenants integer, after_tenant uuid)
returns table (tenant_id uuid, id uuid, name text, payload jsonb, emitted_at timestamptz, after_trigger uuid, has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  tenants uuid[] := '{}';
  last uuid := after_tenant;
  found_tenant uuid;
  is_around boolean := false;
  turns integer;
begin
  if late_ms not between 0 and 3600000 then
    perform windlass.raise_span('late_ms', 0, 3600000);
  elsif notify_ms not between 0 and 600000 then
    perform windlass.raise_span('notify_ms', 0, 600000);
  end if;
  update windlass.event_pending p set retry_at = null
    from (select h.tenant_id, h.event_id from windlass.event_pending h where h.retry_at <= clock_timestamp()
           order by h.retry_at limit most for update skip locked) due
   where p.tenant_id = due.tenant_id and p.event_id = due.event_id;

  while cardinality(tenants) < most_tenants loop
    select p.tenant_id into found_tenant from windlass.event_pending p
     where p.tenant_id > last and p.retry_at is null order by p.tenant_id limit 1;
    if not found then
      exit when is_around;
      is_around := true;
      last := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    exit when is_around and found_tenant > after_tenant;
    tenants := tenants || found_tenant;
    last := found_tenant;
  end loop;

  turns := greatest(1, cardinality(tenants));
  return query
    with share as (
      select w.tenant, w.turn, p.* from unnest(tenants) with ordinality w (tenant, turn) cross join lateral (
        select p.event_id, p.seq, p.after_trigger, row_number() over line as nth, sum(p.bytes) over line as so_far,
               first_value(p.after_trigger) over line as first_after
          from (select p.* from windlass.event_pending p where p.tenant_id = w.tenant and p.retry_at is null
                 order by p.seq limit greatest(1, most / turns)) p
        window line as (order by p.seq)) p),
    batch as materialized (
      select s.* from share s
       where s.nth = 1 or s.so_far <= most_bytes / turns and s.after_trigger is not distinct from s.first_after)
    select e.tenant_id, e.id, e.name, e.payload, e.emitted_at, b.after_trigger,
           (select count(*) from (select from windlass.event_pending p where p.retry_at is null limit most + 1) p)
             > (select count(*) from batch)
      from batch b join windlass.event e on e.tenant_id = b.tenant and e.id = b.event_id
     where e.emitted_at <= clock_timestamp() - make_interval(secs => late_ms / 1000.0)
     order by b.turn, b.seq;
  if not found then
    -- A damaged row must not take the turn of the events behind it.
    update windlass.event_pending p set problem = 'the event does not exist', retry_at = clock_timestamp() + interval '1 hour'
      from unnest(tenants) w (tenant) cross join lateral (
        select p.event_id from windlass.event_pending p where p.tenant_id = w.tenant and p.retry_at is null
         order by p.seq limit greatest(1, most / turns) for update skip locked) o
     where p.tenant_id = w.tenant and p.event_id = o.event_id
       and not exists (select from windlass.event e where e.tenant_id = p.tenant_id and e.id = p.event_id);
    -- Skipped if another dispatcher has locked the row: it writes the same value.
    update windlass.leader l set notifies_until = clock_timestamp() + make_interval(secs => notify_ms / 1000.0)
     where l.duty = (select s.duty from windlass.leader s where s.duty = 'dispatch' for update skip locked);
  end if;
end
$$;

-- The event triggers of these tenants, by id, starting after `afters`: per tenant at most `most`, and at most
-- most_bytes but at least one. A row without a trigger marks the end of its tenant's triggers.
-- Trap: must be read after the events, so that a trigger that existed when an event was committed is never missed.
create or replace function windlass.event_triggers(tenants uuid[], afters uuid[], most integer, most_bytes integer)
returns table (tenant_id uuid, trigger_id uuid, fields jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  so_far bigint;
  is_whole boolean;
  item record;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(afters)) then
    perform windlass.raise_array();
  end if;
  perform windlass.tenants_for(tenants);
  for i in 1 .. cardinality(tenants) loop
    tenant_id := tenants[i];
    so_far := 0;
    is_whole := true;
    for item in
      select t as row, d.key, row_number() over (order by t.id) as nth
        from windlass.job_triggers t join windlass.job_definitions d on d.id = t.definition_id
       where t.tenant_id = tenants[i] and t.id > afters[i]
         and t.is_enabled and t.trigger_type = 'event' and t.deleted_at is null
       order by t.id limit most + 1
    loop
      fields := windlass.trigger_fields(item.row, item.key);
      so_far := so_far + octet_length(fields::text);
      is_whole := item.nth <= most and (item.nth = 1 or so_far <= most_bytes);
      exit when not is_whole;
      trigger_id := (item.row).id;
      return next;
    end loop;
    if is_whole then
      trigger_id := null;
      fields := null;
      return next;
    end if;
  end loop;
end
$$;

-- Delays an event that could not be dispatched, and stores the reason. Other events are not affected.
create or replace function windlass.hold_event_back(tenant uuid, event uuid, problem text, for_seconds integer) returns void
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.raise_span('for_seconds', 0, 86400) where for_seconds not between 0 and 86400;
  select windlass.tenant_for(tenant);
  update windlass.event_pending p
     set problem = left(hold_event_back.problem, 500), retry_at = clock_timestamp() + make_interval(secs => for_seconds)
   where p.tenant_id = tenant and p.event_id = event
$$;
