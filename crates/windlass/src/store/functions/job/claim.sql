-- Takes up to counts[i] queued jobs from lanes[i], those after after_seqs[i] first, for one worker.
--
-- Index: line's primary key (lane, seq), read in its own order; the body by its primary key. The plan is pinned below,
-- because on fresh or unanalysed tables the cached plan became a hash join over a sequential scan.
-- The cursor (after_seqs) is the caller's hint that spares it the dead index entries of claimed jobs; a row that
-- committed late behind it is found by a claim from 0. Counts the attempt here, so a crash is charged.
-- A row holds 1 to 64 jobs, so how many rows to lock is guessed from the next few, and what is still missing is looked
-- for again: locking more than needed would hide work from other workers. Of the last row of a lane only the first jobs
-- may be taken; its seq is answered less one, so that the cursor stays before it.
-- MATERIALIZED, because an inlined sub-select with LIMIT and FOR UPDATE may be run more than once and take too many.
-- The first part of a key is looked for by = any for the reason told in settle.sql.
-- A body is looked up with `offset 0`: as a join, it was looked for by id alone, which reads the whole index for each job.
-- What is there is looked at before anything is locked: a claim that finds nothing, as most do on an idle queue, then writes
-- nothing and waits for no disk; and one that finds a single job goes the short way of claim_lone.
-- Locks: the worker's row, then what hold_to_running locks, then rows of the line, skipping locked ones.
-- The worker's row is locked so that nobody can close it while a claim of its is under way: jobs held under a closed
-- name would never be looked for again. A key-share lock, because a heartbeat must not wait for a claim. For the same
-- reason a worker whose lease has run out gets nothing, nor does a claim that its worker has given up (see unclaim).
-- A job past its deadline, or past the instant by which it must have begun, is not started but failed, like the keeper does it: nobody
-- waits for the keeper. Its body says so, which is read anyway; only then is `expiry` asked. It goes through `deferred`, in the same
-- transaction, because finish_waiting takes it from there. A place without a body has nothing to run and goes.
create or replace function windlass.claim(
  by_worker integer, with_token uuid, lanes integer[], after_seqs bigint[], counts integer[], in_epoch integer default 0)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb)
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
  whole integer;
  is_limited boolean;
  given integer;
  more record;
begin
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
  perform windlass.need_read_committed(); -- what hold_to_running counts after its lock must be new
  is_limited := windlass.has_running_limits();
  if is_limited then
    counts := windlass.hold_to_running(lanes, counts);
  end if;
  if cardinality(places) = 1 and cardinality(places[1].ids) = 1 then
    if counts[array_position(lanes, places[1].lane)] > 0 then
      return query select * from windlass.claim_lone(by_worker, with_token, at, places[1].lane, places[1].seq, is_limited);
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
  end if;
  return query
    with taken as materialized (
      select p.tenant_id, i.id, p.lane, p.seq - (takes[p.ordinality] < cardinality(p.ids))::integer as seq, p.attempt + 1 as attempt, p.failures,
             p.lost, p.snoozes, p.max_attempts, p.holds_dedupe, b.payload, b.created_at, b.scheduled_for, b.deadline,
             windlass.rare_columns(b.source_ref, b.correlation_id, b.subject_type, b.subject_id, b.trace, b.tags, b.parent_id, b.created_by) as extra,
             (b.deadline <= at or b.start_by <= at) and windlass.is_late(p.tenant_id, i.id, p.attempt, at) as is_late
        from unnest(places) with ordinality p
        cross join lateral unnest(p.ids[:takes[p.ordinality]]) i (id)
        cross join lateral (select o.* from windlass.job o where o.tenant_id = p.tenant_id and o.id = i.id offset 0) b),
    started as (
      insert into windlass.live (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, worker, token, claimed_at,
          limited_by)
        select t.tenant_id, t.id, t.lane, t.attempt, t.failures, t.lost, t.snoozes, t.max_attempts, t.holds_dedupe, by_worker, with_token, at,
               case when is_limited then windlass.limited_by(t.lane) end
          from taken t where t.is_late is not true),
    put_aside as (
      insert into windlass.deferred (tenant_id, job_id, due_at, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe)
        select t.tenant_id, t.id, at, t.lane, t.attempt - 1, t.failures, t.lost, t.snoozes, t.max_attempts, t.holds_dedupe
          from taken t where t.is_late),
    counted as (
      insert into windlass.tally (tenant_id, lane, queued, running, scheduled)
        select t.tenant_id, t.lane, -count(*), count(*) filter (where t.is_late is not true), count(*) filter (where t.is_late)
          from taken t group by t.tenant_id, t.lane)
    select t.tenant_id, t.id, t.lane, t.seq, t.attempt, t.failures, t.lost, t.snoozes, t.max_attempts, t.payload,
           -windlass.milliseconds_until(greatest(t.created_at, t.scheduled_for), at), windlass.milliseconds_until(t.deadline, at), t.extra
      from taken t where t.is_late is not true;
  get diagnostics given = row_count;
  if given < (select sum(t) from unnest(takes) t) then
    perform windlass.fail_late(places, takes, at);
  end if;
end
$$;

-- The claim of a row that holds one job, once the worker's row is locked: the same in statements of one row each, because with so
-- little to do most of a statement's time is its beginning. On an idle queue every job comes this way.
create or replace function windlass.claim_lone(by_worker integer, with_token uuid, at timestamptz, of_lane integer, of_seq bigint,
  is_limited boolean)
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload json, queued_ms bigint, deadline_ms bigint, extra jsonb)
language plpgsql
as $$
#variable_conflict use_column
declare
  place windlass.line;
  body record;
begin
  select l.* into place from windlass.line l where l.lane = of_lane and l.seq = of_seq for update skip locked;
  if not found then
    return;
  end if;
  select b.payload, b.created_at, b.scheduled_for, b.deadline, b.start_by,
         windlass.rare_columns(b.source_ref, b.correlation_id, b.subject_type, b.subject_id, b.trace, b.tags, b.parent_id, b.created_by) as extra
    into body from windlass.job b where b.tenant_id = place.tenant_id and b.id = place.ids[1];
  if not found then
    delete from windlass.line l where l.lane = of_lane and l.seq = of_seq and l.tenant_id = place.tenant_id;
    insert into windlass.tally (tenant_id, lane, queued) values (place.tenant_id, place.lane, -1);
    return;
  elsif (body.deadline <= at or body.start_by <= at) and windlass.is_late(place.tenant_id, place.ids[1], place.attempt, at) then
    perform windlass.fail_late(array[place], array[1], at);
    return;
  end if;
  delete from windlass.line l where l.lane = of_lane and l.seq = of_seq and l.tenant_id = place.tenant_id;
  insert into windlass.live (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, worker, token, claimed_at,
      limited_by)
    values (place.tenant_id, place.ids[1], place.lane, place.attempt + 1, place.failures, place.lost, place.snoozes, place.max_attempts,
            place.holds_dedupe, by_worker, with_token, at, case when is_limited then windlass.limited_by(place.lane) end);
  insert into windlass.tally (tenant_id, lane, queued, running) values (place.tenant_id, place.lane, -1, 1);
  return query
    select place.tenant_id, place.ids[1], place.lane, place.seq, place.attempt + 1, place.failures, place.lost, place.snoozes, place.max_attempts,
           body.payload, -windlass.milliseconds_until(greatest(body.created_at, body.scheduled_for), at),
           windlass.milliseconds_until(body.deadline, at), body.extra;
end
$$;

create or replace function windlass.rare_columns(
  source_ref text, correlation_id text, subject_type text, subject_id text, trace text, tags text[], parent_id uuid, created_by uuid)
returns jsonb
language sql stable
as $$
  select case when num_nonnulls(source_ref, correlation_id, subject_type, subject_id, trace, tags, parent_id, created_by) > 0 then
    jsonb_build_object('source_ref', source_ref, 'correlation_id', correlation_id, 'subject_type', subject_type,
      'subject_id', subject_id, 'trace', trace, 'tags', tags, 'parent_id', parent_id, 'created_by', created_by) end
$$;
