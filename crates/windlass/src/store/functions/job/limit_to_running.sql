-- Reduces the number of jobs that a claim may take from each lane to what is left of the limits on running jobs: of the lane's
-- definition, over all tenants, and of its tenant, over all definitions. Returns the new counts.
-- Exact: claims under a limit are serialized by a lock that lasts until commit, and each counts what the previous ones have taken. The
-- end of a job only frees capacity. A separate lock and not the tenant's row, which a user's open transaction may hold because of its
-- quota.
-- The free slots are assigned to lanes in the given order. If there are too few for all of them, a lane gets only as many as it has jobs
-- that this claim can lock: a lane that is empty, or whose jobs an open transaction of its tenant has locked, must not take the slots of
-- the others. These rows stay locked, so the claim finds them.
-- A claim that stays open holds its limits, and the others wait for it, but only a tenth of a second in all: then they take nothing under
-- a locked limit, and the jobs of other lanes.
-- Lock order: gates by id; before any row of the line.
create or replace function windlass.limit_to_running(lanes integer[], after_seqs bigint[], counts integer[]) returns integer[]
language plpgsql
as $$
#variable_conflict use_column
declare
  limited uuid[];
  capacity bigint[];
  has_waited boolean := false;
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
  capacity := array_fill(0::bigint, array[cardinality(limited)]);
  for n in 1 .. cardinality(limited) loop
    if windlass.try_lock_gate(limited[n], 'running', not has_waited) then
      perform windlass.mark_running(limited[n]);
      capacity[n] := windlass.free_capacity(limited[n]);
    else
      has_waited := true;
    end if;
  end loop;
  for one in
    select w.ord, w.lane, w.after_seq, l.definition, l.tenant,
           sum(w.n) over (partition by l.definition order by w.ord desc) - w.n as later_of_definition,
           sum(w.n) over (partition by l.tenant order by w.ord desc) - w.n as later_of_tenant
      from unnest(lanes, after_seqs, counts) with ordinality w (lane, after_seq, n, ord)
      cross join lateral (select array_position(limited, n.definition_id) as definition, array_position(limited, n.tenant_id) as tenant
        from windlass.lane n where n.id = w.lane) l
     where l.definition is not null or l.tenant is not null
     order by w.ord
  loop
    counts[one.ord] := greatest(0, least(counts[one.ord], capacity[one.definition], capacity[one.tenant]));
    if counts[one.ord] > 0 and (capacity[one.definition] - counts[one.ord] < one.later_of_definition
        or capacity[one.tenant] - counts[one.ord] < one.later_of_tenant) then
      counts[one.ord] := windlass.lock_in_lane(one.lane, one.after_seq, counts[one.ord]);
    end if;
    if one.definition is not null then
      capacity[one.definition] := capacity[one.definition] - counts[one.ord];
    end if;
    if one.tenant is not null then
      capacity[one.tenant] := capacity[one.tenant] - counts[one.ord];
    end if;
  end loop;
  return counts;
end
$$;

-- Called by every claim and settlement, so in PL/pgSQL, which caches the plan: in SQL it was planned with every call, 85 us instead of
-- 18.
create or replace function windlass.has_running_limits() returns boolean
language plpgsql stable
as $$
begin
  return exists (select from windlass.job_definitions d where d.max_running is not null)
      or exists (select from windlass.tenants t where t.max_running is not null);
end
$$;

-- The number of further jobs that may run for a definition or a tenant, by its id; null if it has no limit, 0 if the limit is reached.
-- Counts the blocks under that limit, at most as many as the limit, so the cost depends on the limit and not on other jobs: from the
-- counters, a definition of 1,000 tenants took 171 ms per claim. For a while after a limit was set, rows of the definition without a mark
-- are counted too (see mark_running).
-- Index: live_by_limit, and live's primary key for a tenant.
create or replace function windlass.free_capacity(of_id uuid) returns bigint
language plpgsql volatile
as $$
#variable_conflict use_column
declare
  most bigint;
begin
  select d.max_running into most from windlass.job_definitions d where d.id = of_id and d.max_running is not null;
  if found then
    most := most - (select coalesce(sum(windlass.running_in(r.ids, r.ended)), 0)::bigint from (
      select l.ids, l.ended from windlass.live l where l.limited_by = of_id limit most) r);
    if exists (select from windlass.gate g where g.of_id = free_capacity.of_id and g.purpose = 'unmarked') then
      most := most - windlass.unmarked_running(of_id);
    end if;
    return greatest(0, most);
  end if;
  select t.max_running into most from windlass.tenants t where t.id = of_id and t.max_running is not null;
  if not found then
    return null;
  end if;
  return greatest(0, most - (select coalesce(sum(windlass.running_in(r.ids, r.ended)), 0)::bigint from (
    select l.ids, l.ended from windlass.live l where l.tenant_id = of_id limit most) r));
end
$$;

-- The lane's definition, if it has a limit on running jobs: the value of limited_by.
create or replace function windlass.limited_by(of_lane integer) returns uuid
language plpgsql stable
as $$
#variable_conflict use_column
begin
  return (select d.id from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id
           where n.id = of_lane and d.max_running is not null);
end
$$;

-- Requests that the running jobs of a definition that has just got a limit are counted. Leaves their rows alone: an open transaction that
-- sets a limit must not keep the jobs of all tenants from ending. Lock: the definition's gate `unmarked`, until commit. A claim skips it
-- if it is locked.
create or replace function windlass.count_running(definition uuid) returns void
language sql
as $$
  insert into windlass.gate (of_id, purpose) values (definition, 'unmarked') on conflict (of_id, purpose) do update set turn = null
$$;

-- Marks the running jobs that a definition had when it got its limit, except locked rows, and those of claims that did not see the limit
-- yet. The gate `unmarked` says that there may be such rows. It is deleted when there are none, and every transaction that was in
-- progress when a claim saw the limit first has ended: a claim locks its worker, and so has a transaction id, before it reads the limits.
-- `turn` is that barrier. In a database that was restored into another cluster it may be in the future; until then claims of the
-- definition read all running rows. Called under the definition's gate `running`. Does nothing for a tenant.
create or replace function windlass.mark_running(definition uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  barrier record;
begin
  select g.turn into barrier from windlass.gate g where g.of_id = definition and g.purpose = 'unmarked' for update skip locked;
  if not found then
    return;
  end if;
  with mine as materialized (
    select l.tenant_id, l.lane, l.seq from windlass.live l
     where l.limited_by is null and (select n.definition_id from windlass.lane n where n.id = l.lane) = definition
     order by l.tenant_id, l.lane, l.seq for update skip locked)
  update windlass.live l set limited_by = definition from mine m where l.tenant_id = m.tenant_id and l.lane = m.lane and l.seq = m.seq;
  if barrier.turn is null or barrier.turn > pg_snapshot_xmax(pg_current_snapshot()) then -- or it is of another cluster
    update windlass.gate g set turn = pg_snapshot_xmax(pg_current_snapshot()) where g.of_id = definition and g.purpose = 'unmarked';
  else
    delete from windlass.gate g
     where g.of_id = definition and g.purpose = 'unmarked' and barrier.turn <= pg_snapshot_xmin(pg_current_snapshot())
       and windlass.unmarked_running(definition) = 0;
  end if;
end
$$;

-- The number of running jobs of a definition without a mark.
-- Index: lane by id, for each running job: a join with the lanes of the definition, in the settings of a claim, would compare each with
-- each.
create or replace function windlass.unmarked_running(definition uuid) returns bigint
language plpgsql stable
as $$
#variable_conflict use_column
begin
  return (select coalesce(sum(windlass.running_in(l.ids, l.ended)), 0)::bigint from windlass.live l
           where l.limited_by is null and (select n.definition_id from windlass.lane n where n.id = l.lane) = definition);
end
$$;

-- Wakes workers that wait for capacity under a limit that was reached, or nearly reached, before these jobs ended. They check only their
-- lanes of that definition or tenant. `ended` is the number of jobs that ended. "Nearly", because an end that commits at the same moment
-- is not visible, and neither of two would detect that it freed capacity. The message contains the number of the limit's gate, because
-- every login can listen and must not learn whose limit it is. A limit without a gate has not delayed any claim yet.
create or replace function windlass.notify_limits(definitions uuid[], tenants uuid[], ended integer) returns void
language plpgsql
as $$
#variable_conflict use_column
begin
  perform pg_notify('windlass', 'limit ' || g.number)
    from windlass.job_definitions d join windlass.gate g on g.of_id = d.id and g.purpose = 'running'
    where d.id = any (definitions) and d.max_running is not null and windlass.free_capacity(d.id) between 1 and ended + 16;
  perform pg_notify('windlass', 'limit ' || g.number)
    from windlass.tenants t join windlass.gate g on g.of_id = t.id and g.purpose = 'running'
    where t.id = any (tenants) and t.max_running is not null and windlass.free_capacity(t.id) between 1 and ended + 16;
end
$$;

-- The limits that keep the jobs of a lane from being claimed now: 'definition', 'tenant', both or none.
create or replace function windlass.limits_reached(of_lane integer) returns text[]
language sql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select array_remove(array[case when windlass.free_capacity(n.definition_id) <= 0 then 'definition' end,
                            case when windlass.free_capacity(n.tenant_id) <= 0 then 'tenant' end], null)
    from windlass.lane n
   where n.id = of_lane
     and (n.tenant_id = windlass.current_tenant() or windlass.current_tenant() is null and windlass.serves_all_tenants())
$$;
