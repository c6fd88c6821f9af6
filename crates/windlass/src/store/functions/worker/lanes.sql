-- The lanes of these definitions and queues that have queued jobs, with what fairness needs to know. Walks line's key
-- from one lane to the next (a loose index scan), so it costs by lanes with work, not by jobs in them nor by lanes known.
-- definition_keys, queues: null means every one. Lanes of paused queues and of tenants that are suspended or being deleted are left out.
create or replace function windlass.active_lanes(definition_keys text[], queues text[])
returns table (lane integer, tenant_id uuid, definition_key text, queue text, priority smallint, weight integer)
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
begin
  return query
    with recursive walk (lane) as (
      (select l.lane from windlass.line l order by l.lane limit 1)
      union all
      select (select l.lane from windlass.line l where l.lane > w.lane order by l.lane limit 1) from walk w where w.lane is not null)
    select n.id, n.tenant_id, d.key, n.queue, n.priority, t.weight
      from walk w
      join windlass.lane n on n.id = w.lane
      join windlass.job_definitions d on d.id = n.definition_id
      join windlass.tenants t on t.id = n.tenant_id and t.status = 'active'
     where (active_lanes.definition_keys is null or d.key = any (active_lanes.definition_keys))
       and (active_lanes.queues is null or n.queue = any (active_lanes.queues))
       and not exists (select from windlass.queues q where q.name = n.queue and q.is_paused);
end
$$;
