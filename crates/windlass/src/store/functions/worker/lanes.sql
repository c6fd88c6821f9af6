-- The lanes of these definitions and queues that have queued jobs, with the data for fair scheduling. definition_keys,
-- queues: null means all. limits: the numbers of the limits on running jobs that apply to the lane, as in the messages
-- of notify_limits; empty before the first claim. Lanes of paused queues and of tenants that are suspended or being
-- deleted are omitted.
-- Index: line's primary key, from one lane to the next (a loose index scan), so the cost depends on the lanes with
-- work, not on their jobs or on all lanes. If the definitions have fewer lanes than the scan has visited, those are
-- checked instead: a worker does not pay for the lanes of other workers.
-- Trap: each lane with work is looked up separately (`offset 0` prevents another join order): as a join, it read the
-- whole scan once for each existing lane, and with 30,000 lanes that took more than five minutes.
create or replace function windlass.active_lanes(definition_keys text[], queues text[])
returns table (lane integer, tenant_id uuid, definition_key text, queue text, priority smallint, weight integer, limits integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  is_limited boolean := windlass.has_running_limits();
  definitions uuid[] := array(select d.id from windlass.job_definitions d where d.key = any (active_lanes.definition_keys));
  steps integer := case when active_lanes.definition_keys is null then 2147483647 else 8 end;
  walked integer[] := '{}';
  met integer[];
  known integer[];
begin
  if not (windlass.is_list(active_lanes.definition_keys) and windlass.is_list(active_lanes.queues)) then
    perform windlass.raise_array();
  end if;
  loop
    with recursive walk (lane, step) as (
      (select l.lane, 1 from windlass.line l where l.lane > coalesce(walked[cardinality(walked)], 0) order by l.lane limit 1)
      union all
      select (select l.lane from windlass.line l where l.lane > w.lane order by l.lane limit 1), w.step + 1
        from walk w where w.lane is not null and w.step < steps)
    select coalesce(array_agg(w.lane order by w.lane) filter (where w.lane is not null), '{}') into met from walk w;
    walked := walked || met;
    exit when cardinality(met) < steps;
    known := array(select n.id from windlass.lane n where n.definition_id = any (definitions) limit cardinality(walked) + 1);
    if cardinality(known) <= cardinality(walked) then
      walked := array(select k from unnest(known) k where exists (select from windlass.line l where l.lane = k));
      exit;
    end if;
    steps := steps * 2;
  end loop;
  return query
    select n.id, n.tenant_id, d.key, n.queue, n.priority, t.weight,
           case when is_limited then array(select g.number from windlass.gate g
             where g.of_id in (n.definition_id, n.tenant_id) and g.purpose = 'running') else '{}' end
      from unnest(walked) w (lane)
      cross join lateral (select l.id, l.tenant_id, l.definition_id, l.queue, l.priority from windlass.lane l
        where l.id = w.lane offset 0) n
      cross join lateral (select o.key from windlass.job_definitions o where o.id = n.definition_id offset 0) d
      cross join lateral (select o.weight from windlass.tenants o where o.id = n.tenant_id and o.status = 'active' offset 0) t
     where (active_lanes.definition_keys is null or n.definition_id = any (definitions))
       and (active_lanes.queues is null or n.queue = any (active_lanes.queues))
       and not exists (select from windlass.queues q where q.name = n.queue and q.is_paused);
end
$$;

-- Whether more than one tenant has used these definitions: then a worker reserves slots for tenants that have no work
-- at the moment.
-- Index: lane_of_definition, its first and last row for each definition.
create or replace function windlass.has_several_tenants(definition_keys text[]) returns boolean
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.raise_array() where not windlass.is_list(definition_keys);
  select count(distinct e.tenant_id) > 1
    from windlass.job_definitions d
    cross join lateral (
      (select l.tenant_id from windlass.lane l where l.definition_id = d.id order by l.tenant_id limit 1)
      union all
      (select l.tenant_id from windlass.lane l where l.definition_id = d.id order by l.tenant_id desc limit 1)) e
   where d.key = any (definition_keys)
$$;

-- Those of these lanes that have queued jobs that may run: the fast form of active_lanes, for lanes that a busy worker
-- has seen before.
-- Index: line's primary key, once for each lane.
create or replace function windlass.lanes_with_work(lanes integer[]) returns setof integer
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.raise_array() where not windlass.is_list(lanes_with_work.lanes);
  select n.id from unnest(lanes_with_work.lanes) w (lane)
    cross join lateral (select l.id, l.tenant_id, l.queue from windlass.lane l where l.id = w.lane offset 0) n
   where exists (select from windlass.line l where l.lane = w.lane)
     and exists (select from windlass.tenants t where t.id = n.tenant_id and t.status = 'active')
     and not exists (select from windlass.queues q where q.name = n.queue and q.is_paused)
$$;
