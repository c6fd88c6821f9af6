-- Claims up to counts[i] jobs from lanes[i] after after_seqs[i] for one worker. Counts the attempt, so a crash counts.
-- A lane that is listed twice is read once, from the smaller position, for the larger number.
-- Index: line's primary key (lane, seq), in its own order; the body by its primary key. The settings below pin the
-- plan: on new or unanalyzed tables, the cached plan became a hash join over a sequential scan. MATERIALIZED, because
-- an inlined subquery with LIMIT and FOR UPDATE may run more than once and take too many. settle.sql explains `= any`.
-- `offset 0`, because a join searched bodies by id alone, which reads the whole index for each job.
-- The cursor (after_seqs) lets the caller skip the dead index entries of claimed jobs; a claim from 0 finds a row that
-- committed late behind it. A row has 1 to 64 jobs, so the number of rows to lock is estimated from the next few, and
-- the rest is searched again: locking too many would hide work from other workers. From the last row of a lane, only
-- the first jobs may be taken; its seq is returned minus one, so that the cursor stays before it. Rows are read before
-- anything is locked: a claim that finds nothing, as most do on an idle queue, writes nothing; one that finds a single
-- job uses claim_lone.
-- Lock order: the worker's row, then the locks of hold_to_running, then rows of the line, skipping locked ones. The
-- worker's row is locked so that it cannot be closed during the claim: no keeper searches for the jobs of a closed
-- worker again. A key-share lock, so that heartbeats do not wait. A worker whose lease has expired gets nothing, nor
-- does an abandoned claim (see unclaim).
-- A job past its deadline or start deadline fails here. Its body has both; only then is `expiry` read. It passes through
-- `deferred`, because finish_waiting takes it from there. A queued id without a body is deleted.
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
  if not (windlass.is_list(lanes) and windlass.is_list(after_seqs) and windlass.is_list(counts)) then
    perform windlass.refuse_array();
  end if;
  perform windlass.need_read_committed(); -- hold_to_running must count with a snapshot newer than its lock
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
    counts := windlass.hold_to_running(lanes, after_seqs, counts);
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
      select p.tenant_id, i.id, p.lane, p.seq - (takes[p.ordinality] < cardinality(p.ids))::integer as seq, p.attempt + 1 as attempt,
             p.failures, p.lost, p.snoozes, p.max_attempts, p.holds_dedupe, b.payload, b.created_at, b.scheduled_for, b.deadline,
             windlass.rare_columns(b.source_ref, b.correlation_id, b.subject_type, b.subject_id, b.trace, b.tags, b.parent_id,
               b.created_by) as extra,
             (b.deadline <= at or b.start_by <= at) and windlass.is_late(p.tenant_id, i.id, p.attempt, at) as is_late
        from unnest(places) with ordinality p
        cross join lateral unnest(p.ids[:takes[p.ordinality]]) i (id)
        cross join lateral (select o.* from windlass.job o where o.tenant_id = p.tenant_id and o.id = i.id offset 0) b),
    started as (
      insert into windlass.live (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, worker, token,
          claimed_at, limited_by)
        select t.tenant_id, t.id, t.lane, t.attempt, t.failures, t.lost, t.snoozes, t.max_attempts, t.holds_dedupe, by_worker, with_token,
               at, case when is_limited then windlass.limited_by(t.lane) end
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

-- The columns that most jobs do not set, as JSON; null if none is set.
create or replace function windlass.rare_columns(
  source_ref text, correlation_id text, subject_type text, subject_id text, trace text, tags text[], parent_id uuid, created_by uuid)
returns jsonb
language sql stable
as $$
  select case when num_nonnulls(source_ref, correlation_id, subject_type, subject_id, trace, tags, parent_id, created_by) > 0 then
    jsonb_build_object('source_ref', source_ref, 'correlation_id', correlation_id, 'subject_type', subject_type,
      'subject_id', subject_id, 'trace', trace, 'tags', tags, 'parent_id', parent_id, 'created_by', created_by) end
$$;
