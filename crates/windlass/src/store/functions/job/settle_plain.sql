-- Ends attempts that succeeded without any detail, by blocks: the fast path of settle_blocks, with the same guards. Group
-- g ends counts[g] attempts of the block (tenants[g], lanes[g], seqs[g]); the positions and times of all groups follow
-- each other. Only whole groups of blocks without a cancel request or a dedupe key, that no transaction has locked;
-- settle_blocks ends the others, and this function returns what it returns, counted over all positions.
--
-- One statement deletes the blocks whose last attempts end now and sets the bits of the others. A block that changes
-- between the snapshot and the lock is evaluated again in its newest version, so no bit is lost, and each end is written
-- once.
-- Index: live's primary key. Lock order: blocks in the given order (callers sort by their keys), without waiting for
-- them. settle_blocks explains `= any` and xmax.
-- Trap: groups, because one element per job in each array, and grouping here, took 11.4 us per job instead of 8.9.
-- `unnest` is in the select list, because in FROM each array would need its own tuple store.
create or replace function windlass.settle_plain(
  tenants uuid[], lanes integer[], seqs bigint[], attempts integer[], tokens uuid[], counts integer[], positions smallint[],
  ran_ms integer[], out missed integer[], out overruled integer[], out busy integer[])
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
  at timestamptz := clock_timestamp();
  firsts integer[] := '{1}';
  took integer[];
  blocks windlass.live[];
  groups integer[];
  rest integer[];
  n integer;
  others record;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(lanes) and windlass.is_list(seqs) and windlass.is_list(attempts)
      and windlass.is_list(tokens) and windlass.is_list(counts) and windlass.is_list(positions) and windlass.is_list(ran_ms)) then
    perform windlass.raise_array();
  elsif (1 <= all (counts) and 64 >= all (counts)) is not true then
    perform windlass.raise_span('counts', 1, 64);
  end if;
  for g in 2 .. cardinality(counts) loop
    firsts[g] := firsts[g - 1] + counts[g - 1];
  end loop;
  if array[cardinality(tenants), cardinality(lanes), cardinality(seqs), cardinality(attempts), cardinality(tokens)]
     <> array_fill(cardinality(counts), array[5]) then
    raise exception 'tenants, lanes, seqs, attempts and tokens must have as many elements as counts'
      using errcode = 'WL007', column = 'counts';
  elsif array[cardinality(positions), cardinality(ran_ms)]
        <> array_fill(coalesce(firsts[cardinality(counts)] + counts[cardinality(counts)] - 1, 0), array[2]) then
    raise exception 'positions and ran_ms must have as many elements as the sum of counts' using errcode = 'WL007', column = 'positions';
  elsif array_position(ran_ms, null) is not null then
    raise exception 'ran_ms must not contain null' using errcode = 'WL007', column = 'ran_ms';
  end if;
  perform windlass.tenants_for(tenants);
  perform windlass.stay_durable();
  perform set_config('lock_timeout', '200ms', true);
  with named as materialized (
    select g.*, m.mask
      from unnest(tenants, lanes, seqs, attempts, tokens, counts, firsts) with ordinality
        g (tenant, lane, seq, attempt, token, n, first, ord)
      cross join lateral (
        select bit_or(1::bigint << p) as mask from unnest(positions[g.first : g.first + g.n - 1]) p where p between 0 and 63) m
     where bit_count(m.mask::bit(64)) = g.n),
  emptied as (
    delete from windlass.live l using named g
     where l.tenant_id = any (array[g.tenant]) and l.lane = g.lane and l.seq = g.seq and l.attempt = g.attempt and l.token = g.token
       and l.ended & g.mask = 0 and l.ended | g.mask = windlass.all_bits(l.ids)
       and l.cancel_requested_at is null and not l.holds_dedupe and l.xmax = '0'
    returning l as block, l.tenant_id, l.lane, l.attempt, l.worker, l.ids, g.first, g.n, g.ord),
  reduced as (
    update windlass.live l set ended = l.ended | g.mask from named g
     where l.tenant_id = any (array[g.tenant]) and l.lane = g.lane and l.seq = g.seq and l.attempt = g.attempt and l.token = g.token
       and l.ended & g.mask = 0 and g.mask & ~windlass.all_bits(l.ids) = 0 and l.ended | g.mask <> windlass.all_bits(l.ids)
       and l.cancel_requested_at is null and not l.holds_dedupe and l.xmax = '0'
    returning l as block, l.tenant_id, l.lane, l.attempt, l.worker, l.ids, g.first, g.n, g.ord),
  ended as (select * from emptied union all select * from reduced),
  remembered as (
    insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, worker, outcome, job_status)
      select e.tenant_id, e.ids[unnest(positions[e.first : e.first + e.n - 1]) + 1],
             at - unnest(ran_ms[e.first : e.first + e.n - 1]) * interval '1 ms', at, e.attempt, e.lane, e.worker,
             windlass.outcome_code('succeeded'), windlass.state_code('succeeded')
        from ended e),
  counted as (
    insert into windlass.tally (tenant_id, lane, running, succeeded)
      select e.tenant_id, e.lane, -sum(e.n), sum(e.n) from ended e group by e.tenant_id, e.lane)
  select array_agg(e.ord::integer), array_agg(e.block), sum(e.n) into took, blocks, n from ended e;

  if took is not null then
    if pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 and windlass.has_running_limits() then
      perform windlass.notify_limits(array(select distinct b.limited_by from unnest(blocks) b where b.limited_by is not null),
        array(select distinct b.tenant_id from unnest(blocks) b), n);
    end if;
    -- A separate statement, see settle_blocks.
    if exists (select from windlass.dependency) then
      perform windlass.unblock(e.tenant_id, array_agg(e.job))
         from (select b.tenant_id, b.ids[p + 1] as job
                 from unnest(blocks) with ordinality b
                 cross join lateral (select firsts[took[b.ordinality]] as first, counts[took[b.ordinality]] as n) g
                 cross join lateral unnest(positions[g.first : g.first + g.n - 1]) p) e
        where exists (select from windlass.dependency d where d.tenant_id = e.tenant_id and d.needs_job_id = e.job)
        group by e.tenant_id order by e.tenant_id;
    end if;
  end if;
  if cardinality(positions) > coalesce(n, 0) then
    select array_agg(g order by p), array_agg(p order by p) into groups, rest
      from generate_subscripts(counts, 1) g cross join lateral generate_series(firsts[g], firsts[g] + counts[g] - 1) p
     where took is null or g <> all (took);
    select s.* into others from windlass.settle_blocks(
      array(select tenants[g] from unnest(groups) g), array(select lanes[g] from unnest(groups) g),
      array(select seqs[g] from unnest(groups) g), array(select attempts[g] from unnest(groups) g),
      array(select tokens[g] from unnest(groups) g), array(select positions[p] from unnest(rest) p),
      array(select ran_ms[p] from unnest(rest) p), array_fill(null::jsonb, array[cardinality(rest)]), null, true) s;
    missed := array(select rest[m] from unnest(others.missed) m);
    overruled := array(select rest[o] from unnest(others.overruled) o);
    busy := array(select rest[b] from unnest(others.busy) b);
  end if;
end
$$;
