-- Retires and deletes unused lanes, so that a tenant whose queue names contain dates stays below its limits. Processes
-- `most` lanes, starting where the last call ended, and returns how many it retired or deleted.
--
-- A lane without a job for a day is retired: it no longer counts for the limits. Nothing else changes, because a job
-- may still be enqueued into it: processes cache a route for a few seconds, and an open transaction has jobs that are
-- not visible. Such a job is claimed like any other, and the lane counts again from the next visit on. A route lookup
-- makes the lane count again (see route). A lane that has been retired for a week is deleted once all transactions that
-- may have used it have ended: those before `barrier`, which is stored after that week, when no process can still cache
-- its route. A barrier in the future comes from another cluster, before the database was restored here. The first lane
-- of a tenant and definition is kept: it takes over the purged count of the others, so that the number of all jobs ever
-- enqueued does not decrease.
-- The counters show whether a lane has a job: they are exact, and bodies and history have no index by lane. Lanes of a
-- tenant that is being deleted are deleted with it.
-- Index: lane_by_id. Lock: the gate `fold`, so that counters are not folded meanwhile; then lane rows, skipping locked
-- ones, which are about to be used again.
create or replace function windlass.retire_lanes(most integer default 1000) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  now_running pg_snapshot := pg_current_snapshot();
  at constant timestamptz := clock_timestamp();
  busy integer[];
  one record;
  last integer := 0;
  let_go integer := 0;
begin
  if not windlass.try_gate('fold') then
    return 0;
  end if;
  busy := array(select distinct d.lane from windlass.tally d);
  for one in
    select l.tenant_id, l.id, l.definition_id, l.idle_since, l.idle_purged, l.retired_at, l.barrier, coalesce(t.purged, 0) as purged,
           l.id <> all (busy) and not exists (select from windlass.line n where n.lane = l.id)
             and coalesce((t.queued, t.running, t.scheduled, t.blocked, t.succeeded, t.failed, t.dead_letter, t.canceled)
                          = (0, 0, 0, 0, 0, 0, 0, 0), true) as is_empty
      from windlass.lane l left join windlass.total t on t.tenant_id = l.tenant_id and t.lane = l.id
     where l.id > (select m.at_lane from windlass.lane_mark m)
       and exists (select from windlass.tenants o where o.id = l.tenant_id and o.status <> 'deleting')
     order by l.id limit most for update of l skip locked
  loop
    last := one.id;
    if not one.is_empty or one.idle_purged is distinct from one.purged then
      update windlass.lane l
         set idle_since = case when one.is_empty then at end, idle_purged = case when one.is_empty then one.purged end, retired_at = null,
           barrier = null
       where l.tenant_id = one.tenant_id and l.id = one.id and (one.is_empty or l.idle_since is not null or l.retired_at is not null);
    elsif one.idle_since is null then
      update windlass.lane l set idle_since = at where l.tenant_id = one.tenant_id and l.id = one.id;
    elsif one.retired_at is null then
      update windlass.lane l set retired_at = at
       where l.tenant_id = one.tenant_id and l.id = one.id and l.idle_since < at - interval '24 hours';
      let_go := let_go + found::integer;
    elsif one.barrier is null or one.barrier > pg_snapshot_xmax(now_running) then
      update windlass.lane l set barrier = pg_snapshot_xmax(now_running)
       where l.tenant_id = one.tenant_id and l.id = one.id and l.retired_at < at - interval '168 hours';
    elsif pg_snapshot_xmin(now_running) >= one.barrier then
      let_go := let_go + windlass.delete_lane(one.tenant_id, one.id, one.definition_id, one.purged)::integer;
    end if;
  end loop;
  update windlass.lane_mark m set at_lane = last where m.at_lane <> last; -- from the start again, if there was none
  return let_go;
end
$$;

-- Deletes a lane without jobs; see above. Returns false for the first one of its tenant and definition, which is kept.
create or replace function windlass.delete_lane(tenant uuid, of_lane integer, definition uuid, purged bigint) returns boolean
language plpgsql
as $$
#variable_conflict use_column
declare
  heir integer;
begin
  select min(l.id) into heir from windlass.lane l where l.definition_id = definition and l.tenant_id = tenant;
  if heir = of_lane then
    return false;
  end if;
  insert into windlass.total as t (tenant_id, lane, purged) values (tenant, heir, delete_lane.purged)
    on conflict (tenant_id, lane) do update set purged = t.purged + excluded.purged;
  delete from windlass.total t where t.tenant_id = tenant and t.lane = of_lane;
  delete from windlass.lane l where l.tenant_id = tenant and l.id = of_lane;
  return true;
end
$$;

-- Makes a retired lane count for the limits again, for an application that enqueues into a lane by its number and may
-- have cached it for long. Refuses (WL007) a lane that was deleted meanwhile: its jobs would never be claimed. Lock order: as
-- in route.
create or replace function windlass.use_lane_again(tenant uuid, of_lane integer, of_queue text) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform windlass.lock_tenant(tenant);
  perform windlass.limit_lanes(tenant, of_queue, 'lane');
  update windlass.lane l set retired_at = null, idle_since = null, barrier = null, made_by = pg_current_xact_id()
   where l.tenant_id = tenant and l.id = of_lane;
  if not found then
    raise exception 'lane % does not belong to the tenant', of_lane using errcode = 'WL007', column = 'lane';
  end if;
end
$$;
