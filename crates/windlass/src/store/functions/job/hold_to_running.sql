-- Cuts what a claim may take from each lane to the room that is left under the limits on running jobs: of the lane's
-- definition, over all tenants, and of its tenant, over all definitions. Answers the new counts.
--
-- Exact: whoever claims under a limit passes here one after the other, by a lock that lasts until the claim has
-- committed, and then counts what those before it have taken. Whoever ends a job only makes room. A lock of its own and not
-- the tenant's row, which a user's open transaction may hold because of its quota.
-- Locks: by id, in order; before any row of the line.
create or replace function windlass.hold_to_running(lanes integer[], counts integer[]) returns integer[]
language plpgsql
as $$
#variable_conflict use_column
declare
  limited uuid[];
  room bigint[];
  one record;
begin
  limited := array(
    select d.id from windlass.job_definitions d where d.max_running is not null
       and d.id in (select n.definition_id from windlass.lane n where n.id = any (lanes))
    union
    select t.id from windlass.tenants t where t.max_running is not null
       and t.id in (select n.tenant_id from windlass.lane n where n.id = any (lanes))
    order by 1);
  if limited = '{}' then
    return counts;
  end if;
  perform windlass.lock_gate(l.id, 'running') from unnest(limited) l (id);
  room := array(select windlass.room_to_run(l.id) from unnest(limited) with ordinality l (id, ord) order by l.ord);
  for i in 1 .. cardinality(lanes) loop
    select array_position(limited, n.definition_id) as definition, array_position(limited, n.tenant_id) as tenant
      into one from windlass.lane n where n.id = lanes[i];
    counts[i] := greatest(0, least(counts[i], room[one.definition], room[one.tenant]));
    if one.definition is not null then
      room[one.definition] := room[one.definition] - counts[i];
    end if;
    if one.tenant is not null then
      room[one.tenant] := room[one.tenant] - counts[i];
    end if;
  end loop;
  return counts;
end
$$;

-- In every claim and settlement, so in PL/pgSQL, which plans it once: in SQL it was planned with every call, 85 us instead of 18.
create or replace function windlass.has_running_limits() returns boolean
language plpgsql stable
as $$
begin
  return exists (select from windlass.job_definitions d where d.max_running is not null)
      or exists (select from windlass.tenants t where t.max_running is not null);
end
$$;

-- How many more may run of a definition or of a tenant, by its id; null if it has no limit, 0 if as many run as may or more.
-- Counts the running rows under that limit, and no more of them than the limit allows, so it costs by the limit asked for and not
-- by what runs, waits or ended elsewhere: from the counters, a definition of 1,000 tenants cost 171 ms a claim.
-- Index: live_by_limit, and live's primary key for a tenant.
create or replace function windlass.room_to_run(of_id uuid) returns bigint
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  most bigint;
begin
  select d.max_running into most from windlass.job_definitions d where d.id = of_id and d.max_running is not null;
  if found then
    return most - (select count(*) from (select from windlass.live l where l.limited_by = of_id limit most) r);
  end if;
  select t.max_running into most from windlass.tenants t where t.id = of_id and t.max_running is not null;
  return most - (select count(*) from (select from windlass.live l where l.tenant_id = of_id limit most) r);
end
$$;

-- The lane's definition, if it has a limit on running jobs: what a claim writes as limited_by.
create or replace function windlass.limited_by(of_lane integer) returns uuid
language plpgsql stable
as $$
#variable_conflict use_column
begin
  return (select d.id from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id
           where n.id = of_lane and d.max_running is not null);
end
$$;

-- Counts what runs already under a limit that a definition has just got. A claim that is committing at that very moment is missed:
-- its jobs run beside the limit until they end.
-- Index: none, a walk over the runs under way, when a limit is set.
create or replace function windlass.count_running(definition uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  update windlass.live l set limited_by = definition
   where l.limited_by is null and l.lane in (select n.id from windlass.lane n where n.definition_id = definition);
end
$$;

-- Wakes workers that wait for room under a limit that was full, or nearly so, before these jobs ended: they look again at their
-- lanes of that definition or tenant, and nobody else looks at anything. `ended` is how many ended. Nearly, because an end that
-- commits at the same moment is not seen, and neither of two would be the one that made room.
-- Says the number of the limit's gate: everybody who may connect hears it, and must not learn whose it is. A limit without a gate has
-- held nobody up yet.
create or replace function windlass.ring_for_room(definitions uuid[], tenants uuid[], ended integer) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform pg_notify('windlass', 'room ' || g.number)
    from windlass.job_definitions d join windlass.gate g on g.of_id = d.id and g.purpose = 'running'
    where d.id = any (definitions) and d.max_running is not null and windlass.room_to_run(d.id) between 1 and ended + 16;
  perform pg_notify('windlass', 'room ' || g.number)
    from windlass.tenants t join windlass.gate g on g.of_id = t.id and g.purpose = 'running'
    where t.id = any (tenants) and t.max_running is not null and windlass.room_to_run(t.id) between 1 and ended + 16;
end
$$;

-- Which limits keep the jobs of a lane from being claimed now: 'definition', 'tenant', both or none.
create or replace function windlass.limits_reached(of_lane integer) returns text[]
language sql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select array_remove(array[case when windlass.room_to_run(n.definition_id) <= 0 then 'definition' end,
                            case when windlass.room_to_run(n.tenant_id) <= 0 then 'tenant' end], null)
    from windlass.lane n
   where n.id = of_lane
     and (n.tenant_id = windlass.current_tenant() or windlass.current_tenant() is null and windlass.serves_all_tenants())
$$;
