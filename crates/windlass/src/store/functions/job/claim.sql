-- Claims up to counts[i] jobs from lanes[i] after after_seqs[i] for one worker. Counts the attempt, so a crash counts.
-- A lane that is listed twice is read once, from the smaller position, for the larger number. Jobs move by blocks: the
-- part of a row of the line that is taken becomes a row of live, and whole rows of up to 8 new jobs are put together, up
-- to 63 jobs whose rows are less than 4096 apart. `block` and `at_position` are a job's place in live, by which its worker
-- ends it. Their sum is unique, because a block uses no more numbers than the first of its rows has: lists of running jobs
-- continue from it. `apart`: each job gets a block of its own, because each gets its own token.
-- Index: line's primary key (lane, seq), in its own order; the body by its primary key. The settings below pin the
-- plan: on new or unanalyzed tables, the cached plan became a hash join over a sequential scan. MATERIALIZED, because
-- an inlined subquery with LIMIT and FOR UPDATE may run more than once and take too many. settle_blocks.sql explains
-- `= any`. `offset 0`, because a join searched bodies by id alone, which reads the whole index for each job.
-- The cursor (after_seqs) lets the caller skip the dead index entries of claimed jobs; a claim from 0 finds a row that
-- committed late behind it. A row has 1 to 64 jobs, so the number of rows to lock is estimated from the next few, and
-- the rest is searched again: locking too many would hide work from other workers. From the last row of a lane, only
-- the first jobs may be taken; seq is then returned minus 64, so that the cursor stays before it. Rows are read before
-- anything is locked: a claim that finds nothing, as most do on an idle queue, writes nothing; one that finds a single
-- job uses claim_lone.
-- Lock order: the worker's row, then the locks of limit_to_running, then rows of the line, skipping locked ones. The
-- worker's row is locked so that it cannot be closed during the claim: no keeper searches for the jobs of a closed
-- worker again. A key-share lock, so that heartbeats do not wait. A worker whose lease has expired gets nothing, nor
-- does an abandoned claim (see unclaim).
-- A job past its deadline or start deadline, and a queued id without a body, leave the block again (see fail_late). Its
-- body has both deadlines; only then is `expiry` read.
-- Trap: `null and is_late(…)` calls is_late, for every job without a deadline; hence coalesce. It took 10 of 17 us.
create or replace function windlass.claim(
  by_worker integer, with_token uuid, lanes integer[], after_seqs bigint[], counts integer[], in_epoch integer default 0,
  apart boolean default false)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb, block bigint,
  at_position smallint)
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
  places windlass.line[];
  takes integer[] := '{}';
  cuts bigint[] := '{}';
  blocks windlass.live[];
  whole integer;
  is_limited boolean;
  given integer;
  more record;
begin
  if not (windlass.is_list(lanes) and windlass.is_list(after_seqs) and windlass.is_list(counts)) then
    perform windlass.raise_array();
  end if;
  perform windlass.check_read_committed(); -- limit_to_running must count with a snapshot newer than its lock
  if with_token is null then
    perform windlass.raise_null('with_token');
  end if;
  select array_agg(f.place) into places
    from (select f.place from unnest(lanes, after_seqs) w (lane, after_seq)
            cross join lateral (
              select l as place from windlass.line l
               where l.lane = w.lane and l.seq > w.after_seq
               order by l.seq limit 2) f
           limit 2) f;
  if places is null then
    return;
  end if;
  perform from windlass.job_workers w
    where w.id = by_worker and w.stopped_at is null and w.lease_expires_at > at and w.epoch <= in_epoch for key share;
  if not found then
    return;
  end if;
  perform windlass.stay_durable();
  if cardinality(lanes) > 1 and (select count(distinct l) from unnest(lanes) l) < cardinality(lanes) then
    select array_agg(w.lane), array_agg(w.after_seq), array_agg(w.n) into lanes, after_seqs, counts from (
      select u.lane, min(u.after_seq) as after_seq, max(u.n) as n from unnest(lanes, after_seqs, counts) u (lane, after_seq, n)
       group by u.lane order by u.lane) w;
  end if;
  is_limited := windlass.has_running_limits();
  if is_limited then
    counts := windlass.limit_to_running(lanes, after_seqs, counts);
  end if;
  if cardinality(places) = 1 and cardinality(places[1].ids) = 1 then
    if counts[array_position(lanes, places[1].lane)] > 0 then
      return query select * from windlass.claim_lone(by_worker, with_token, at, places[1].lane, places[1].seq, is_limited,
        apart);
    end if;
    return;
  end if;
  places := '{}';
  while cardinality(lanes) > 0 loop
    with turn as materialized (
      select w.lane, w.after_seq, w.n, (
               select ceil(w.n / greatest(avg(cardinality(f.ids)), 1))::integer from (
                 select l.ids from windlass.line l where l.lane = w.lane and l.seq > w.after_seq order by l.seq limit 8) f) as most
        from unnest(lanes, after_seqs, counts) w (lane, after_seq, n)),
    locked as materialized (
      select t.n, t.most, f.place
        from turn t
        cross join lateral (
          select l as place from windlass.line l
           where l.lane = t.lane and l.seq > t.after_seq
           order by l.seq limit t.most
           for update skip locked) f),
    counted as (
      select l.*, (l.place).lane, (l.place).seq, cardinality((l.place).ids) as holds,
             sum(cardinality((l.place).ids)) over (partition by (l.place).lane order by (l.place).seq) as so_far
        from locked l),
    short as (
      select c.lane, max(c.seq) as last_seq, min(c.n) - sum(c.holds) as missing
        from counted c group by c.lane having sum(c.holds) < min(c.n) and count(*) = min(c.most))
    select array_agg(c.place order by c.lane, c.seq) as places,
           array_agg(least(c.holds, c.n - c.so_far + c.holds)::integer order by c.lane, c.seq) as takes,
           (select array_agg(s.lane) from short s) as lanes, (select array_agg(s.last_seq) from short s) as after_seqs,
           (select array_agg(s.missing)::integer[] from short s) as counts
      into more from counted c where c.so_far - c.holds < c.n;
    places := places || more.places;
    takes := takes || more.takes;
    lanes := more.lanes;
    after_seqs := more.after_seqs;
    counts := more.counts;
  end loop;
  if places = '{}' then
    return;
  end if;

  delete from windlass.line l using unnest(places) with ordinality p
   where l.lane = any (array[p.lane]) and l.seq = p.seq and l.tenant_id = p.tenant_id and takes[p.ordinality] = cardinality(p.ids);
  get diagnostics whole = row_count;
  if whole < cardinality(places) then
    update windlass.line l set ids = p.ids[takes[p.ordinality] + 1:], taken = p.taken + takes[p.ordinality],
           offsets = p.offsets[takes[p.ordinality] + 1:]
      from unnest(places) with ordinality p
     where l.lane = any (array[p.lane]) and l.seq = p.seq and l.tenant_id = p.tenant_id and takes[p.ordinality] < cardinality(p.ids);
    cuts := array(
      select f.first from unnest(places) with ordinality p
        cross join lateral generate_series(p.seq + p.taken, p.seq + p.taken + apart::integer * (takes[p.ordinality] - 1)) f (first)
       where takes[p.ordinality] < cardinality(p.ids));
  end if;
  with part as materialized (
    select p.tenant_id, p.lane, p.seq, p.seq + p.taken as first, p.attempt, p.failures, p.lost, p.snoozes, p.max_attempts,
           p.holds_dedupe, p.job_id, takes[p.ordinality] as take,
           case when takes[p.ordinality] = cardinality(p.ids) then p.ids else p.ids[:takes[p.ordinality]] end as took,
           cardinality(p.ids) <= 8 and takes[p.ordinality] = cardinality(p.ids) and p.taken = 0
             and p.attempt = 0 and p.job_id is null and not p.holds_dedupe as is_small
      from unnest(places) with ordinality p),
  block as (
    select p.tenant_id, p.lane, p.first, p.attempt, p.failures, p.lost, p.snoozes, p.max_attempts, p.holds_dedupe, p.job_id, p.took
      from part p where not p.is_small and not apart
    union all
    select p.tenant_id, p.lane, min(p.first), 0, 0::smallint, 0::smallint, 0::smallint, p.max_attempts, false, null,
           array_agg(i.id order by p.first, i.ord)
      from (select p.*, p.seq >> 12 as reach,
                   (sum(p.take) over (partition by p.lane, p.max_attempts, p.seq >> 12 order by p.seq) - p.take) / 56 as part
              from part p where p.is_small and not apart) p
      cross join lateral unnest(p.took) with ordinality i (id, ord)
     group by p.tenant_id, p.lane, p.max_attempts, p.reach, p.part
    union all
    select p.tenant_id, p.lane, p.first + i.ord - 1, p.attempt, p.failures, p.lost, p.snoozes, p.max_attempts, p.holds_dedupe, i.id,
           array[i.id]
      from part p cross join lateral unnest(p.took) with ordinality i (id, ord) where apart),
  started as (
    insert into windlass.live as l (tenant_id, lane, seq, worker, attempt, token, claimed_at, failures, lost, snoozes, max_attempts,
        holds_dedupe, limited_by, job_id, ids)
      select b.tenant_id, b.lane, b.first, by_worker, b.attempt + 1, with_token, at, b.failures, b.lost, b.snoozes, b.max_attempts,
             b.holds_dedupe, case when is_limited then windlass.limited_by(b.lane) end, b.job_id, b.took
        from block b
    returning l as block),
  counted as (
    insert into windlass.tally (tenant_id, lane, queued, running)
      select (s.block).tenant_id, (s.block).lane, -sum(cardinality((s.block).ids)), sum(cardinality((s.block).ids))
        from started s group by 1, 2)
  select array_agg(s.block) into blocks from started s;
  return query
    select l.tenant_id, i.id, l.lane,
           case when l.seq = any (cuts) then l.seq - 64 when l.job_id is null then greatest(l.seq, b.line_seq) else l.seq end,
           l.attempt, l.failures, l.lost, l.snoozes, l.max_attempts, b.payload,
           -windlass.milliseconds_until(greatest(b.created_at, b.scheduled_for), at), windlass.milliseconds_until(b.deadline, at),
           windlass.rare_columns(b.source_ref, b.correlation_id, b.subject_type, b.subject_id, b.trace, b.tags, b.parent_id,
             b.created_by), l.seq, (i.ord - 1)::smallint
      from unnest(blocks) l
      cross join lateral unnest(l.ids) with ordinality i (id, ord)
      cross join lateral (select o.* from windlass.job o where o.tenant_id = l.tenant_id and o.id = i.id offset 0) b
     where not (coalesce(b.deadline <= at or b.start_by <= at, false) and windlass.is_late(l.tenant_id, i.id, l.attempt - 1, at))
     order by l.lane, case when l.job_id is null then b.line_seq else l.seq end, i.ord; -- in the order of the queue
  get diagnostics given = row_count;
  if given < (select sum(t) from unnest(takes) t) then
    perform windlass.fail_late(blocks, at);
  end if;
end
$$;
