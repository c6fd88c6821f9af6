-- Events that nobody has dispatched, oldest first, without a lock: dispatch_events guards what is done about them.
-- late_ms: as in due_triggers. When there is nothing the dispatcher asks to be rung for, for as long as ring_ms.
-- Index: event_pending_in_line, in its own order.
create or replace function windlass.pending_events(late_ms integer, most integer, ring_ms integer)
returns table (tenant_id uuid, id uuid, name text, payload jsonb, emitted_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
    select e.tenant_id, e.id, e.name, e.payload, e.emitted_at
      from (select p.* from windlass.event_pending p order by p.seq limit most) p
      join windlass.event e on e.tenant_id = p.tenant_id and e.id = p.event_id
     where e.emitted_at <= clock_timestamp() - make_interval(secs => late_ms / 1000.0)
     order by p.seq;
  if not found then
    -- Skipped when another has the row: it is writing the same.
    update windlass.leader l set rings_until = clock_timestamp() + make_interval(secs => ring_ms / 1000.0)
     where l.duty = (select s.duty from windlass.leader s where s.duty = 'dispatch' for update skip locked);
  end if;
end
$$;

-- The triggers that wait for events, of these tenants. Read after the events, so that a trigger which was there when an
-- event was committed is never missed.
create or replace function windlass.event_triggers(tenants uuid[]) returns setof jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(t) || jsonb_build_object('definition_key', d.key)
    from windlass.job_triggers t join windlass.job_definitions d on d.id = t.definition_id
   where t.tenant_id = any (tenants) and t.is_enabled and t.trigger_type = 'event' and t.deleted_at is null
   order by t.tenant_id, t.id
$$;
