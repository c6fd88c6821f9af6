-- Ends attempts that the caller names by their jobs, as settle_blocks does: pull workers, the reaper, a transaction that
-- completes its own job. Returns, counted from 1, the ends that took effect, those overruled by a cancel request, and the
-- busy ones.
-- settle_blocks checks the fence. A job that is handed over meanwhile is searched again, and found in its new block.
create or replace function windlass.settle(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], ran_ms integer[], details jsonb[],
  only_workers integer[] default null, skips_locked boolean default false,
  out settled integer[], out overruled integer[], out busy integer[])
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  held record;
  ended record;
  left_over integer[] := array(select generate_subscripts(jobs, 1));
begin
  if not (windlass.is_list(tenants) and windlass.is_list(jobs) and windlass.is_list(attempts) and windlass.is_list(tokens)
      and windlass.is_list(ran_ms) and windlass.is_list(details) and windlass.is_list(only_workers)) then
    perform windlass.raise_array();
  end if;
  perform windlass.tenants_for(tenants);
  for try in 1 .. 3 loop
    select array_agg(h.ord) as ords, array_agg(h.tenant_id) as tenants, array_agg(h.lane) as lanes, array_agg(h.seq) as seqs,
           array_agg(h.at_position) as positions
      into held from (
        select o.ord, b.tenant_id, b.lane, b.seq, (array_position(b.ids, jobs[o.ord]) - 1)::smallint as at_position
          from unnest(left_over) o (ord)
          cross join lateral windlass.block_of(tenants[o.ord], jobs[o.ord]) b
         where b.seq is not null
         order by b.tenant_id, b.lane, b.seq) h;
    exit when held.ords is null;
    select s.* into ended from windlass.settle_blocks(held.tenants, held.lanes, held.seqs,
      array(select attempts[o] from unnest(held.ords) o), array(select tokens[o] from unnest(held.ords) o), held.positions,
      array(select ran_ms[o] from unnest(held.ords) o), array(select details[o] from unnest(held.ords) o), only_workers, skips_locked) s;
    settled := settled
      || array(select h.ord from unnest(held.ords) with ordinality h (ord, i) where h.i <> all (coalesce(ended.missed, '{}')));
    overruled := overruled || array(select held.ords[o] from unnest(ended.overruled) o);
    busy := busy || array(select held.ords[b] from unnest(ended.busy) b);
    left_over := array(select held.ords[m] from unnest(ended.missed) m where m <> all (coalesce(ended.busy, '{}')));
    exit when left_over = '{}';
  end loop;
  settled := nullif(settled, '{}');
  overruled := nullif(overruled, '{}');
  busy := nullif(busy, '{}');
end
$$;

-- What follows from ends that settle_blocks has written: the last progress reports, the cancel requests that are
-- obsolete, the chained jobs, and the jobs that waited. settled: which of the entries; jobs: their ids.
create or replace function windlass.after_settle(
  tenants uuid[], attempts integer[], details jsonb[], settled integer[], jobs uuid[], overruled integer[], at timestamptz) returns void
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  by_entry uuid[];
begin
  if exists (select from unnest(details) d where d ? 'progress') then
    insert into windlass.progress as p (tenant_id, job_id, attempt, percent, message, updated_at)
      select tenants[e.o], e.job, attempts[e.o], (details[e.o] #>> '{progress,percent}')::real, details[e.o] #>> '{progress,message}', at
        from unnest(settled, jobs) e (o, job) where details[e.o] ? 'progress' order by 1, 2
      on conflict (tenant_id, job_id) do update
        set attempt = excluded.attempt, percent = excluded.percent, message = excluded.message, updated_at = excluded.updated_at
        where p.attempt <= excluded.attempt;
  end if;
  if overruled is not null then
    -- A separate statement, because the one that ended them may have waited for the cancel whose request it could not see.
    delete from windlass.cancel_request c using unnest(settled, jobs) e (o, job)
     where e.o = any (overruled) and c.tenant_id = tenants[e.o] and c.job_id = e.job;
  end if;
  if exists (select from unnest(details) d where d ? 'chain') then
    by_entry := array(select e.job from generate_subscripts(tenants, 1) i left join unnest(settled, jobs) e (o, job) on e.o = i order by i);
    perform windlass.enqueue_chains(tenants, by_entry, details,
      array(select o from unnest(settled) o where o <> all (coalesce(overruled, '{}'))));
  end if;
  -- A separate statement too: a job that starts to wait for one of these is either visible here, or was committed after
  -- this transaction got its id, and then the keeper checks it after this transaction has ended (see unblock_all).
  if exists (select from windlass.dependency) then
    perform windlass.unblock(t.tenant, t.needs)
       from (select tenants[e.o] as tenant, array_agg(e.job) as needs from unnest(settled, jobs) e (o, job)
              where exists (select from windlass.dependency d where d.tenant_id = tenants[e.o] and d.needs_job_id = e.job)
              group by 1 order by 1) t;
  end if;
end
$$;

-- Of the ends that settle_blocks has not written, writes those whose blocks it can lock now and whose positions are still
-- running. Returns those that took no effect, and among them those whose blocks another transaction has locked. The rest
-- lost their lease.
-- Locks without waiting: a caller that waits has locked the blocks.
create or replace function windlass.settle_touched(
  tenants uuid[], lanes integer[], seqs bigint[], attempts integer[], tokens uuid[], positions smallint[], ran_ms integer[],
  details jsonb[], only_workers integer[], done integer[],
  out missed integer[], out overruled integer[], out busy integer[])
language plpgsql
as $$
#variable_conflict use_column
declare
  held integer[];
  mine integer[];
  ended record;
begin
  missed := array(select i from generate_subscripts(positions, 1) i where i <> all (coalesce(done, '{}')));
  held := array(
    select i.o from unnest(missed) i (o)
      cross join lateral (select from windlass.live l where l.tenant_id = tenants[i.o] and l.lane = lanes[i.o] and l.seq = seqs[i.o]
        and l.attempt = attempts[i.o] and l.token = tokens[i.o] for update skip locked) l);
  select array_agg(i.o) filter (where i.is_mine), array_agg(i.o) filter (where not i.is_mine) into mine, busy from (
    select distinct on (tenants[m.o], lanes[m.o], seqs[m.o], positions[m.o]) m.o, m.o = any (held) as is_mine
      from unnest(missed) m (o)
      join windlass.live l on l.tenant_id = any (array[tenants[m.o]]) and l.lane = lanes[m.o] and l.seq = seqs[m.o]
       and l.attempt = attempts[m.o] and l.token = tokens[m.o]
     where positions[m.o] between 0 and cardinality(l.ids) - 1 and windlass.runs_at(l.ended, positions[m.o])
       and (only_workers is null or l.worker = any (only_workers))
     order by tenants[m.o], lanes[m.o], seqs[m.o], positions[m.o], m.o) i;
  if mine is not null then
    select s.* into ended from windlass.settle_blocks(
      array(select tenants[o] from unnest(mine) o), array(select lanes[o] from unnest(mine) o), array(select seqs[o] from unnest(mine) o),
      array(select attempts[o] from unnest(mine) o), array(select tokens[o] from unnest(mine) o),
      array(select positions[o] from unnest(mine) o), array(select ran_ms[o] from unnest(mine) o),
      array(select details[o] from unnest(mine) o), only_workers, are_locked => true) s;
    missed := array(select m from unnest(missed) m
      where m <> all (array(select u.o from unnest(mine) with ordinality u (o, i) where u.i <> all (coalesce(ended.missed, '{}')))));
    overruled := nullif(array(select mine[o] from unnest(ended.overruled) o), '{}');
  end if;
  missed := nullif(missed, '{}');
end
$$;
