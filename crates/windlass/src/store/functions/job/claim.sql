-- Takes up to counts[i] queued jobs from lanes[i], those after after_seqs[i] first, for one worker.
--
-- Index: live_in_line (lane, seq), read in its own order; the body by its primary key. The plan is pinned below,
-- because on fresh or unanalysed tables the cached plan became a hash join over a sequential scan.
-- The cursor (after_seqs) is the caller's hint that spares it the dead index entries of finished jobs; a row that
-- committed late behind it is found by a claim from 0. Counts the attempt here, so a crash is charged.
-- MATERIALIZED, because an inlined sub-select with LIMIT and FOR UPDATE may be run more than once and take too many.
-- The columns that most jobs leave empty travel as one, to spare the result twenty columns of nothing (not measured apart).
-- RETURNING has no order: sorted again at the end. Locks: the worker's row, then live rows, skipping locked ones.
-- The worker's row is locked so that nobody can close it while a claim of its is under way: jobs held under a closed
-- name would never be looked for again. A key-share lock, because a heartbeat must not wait for a claim. For the same
-- reason a worker whose lease has run out gets nothing.
create or replace function windlass.claim(
  by_worker integer, with_token uuid, lanes integer[], after_seqs bigint[], counts integer[])
returns table (tenant_id uuid, job_id uuid, lane integer, seq bigint, attempt integer, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, payload jsonb, queued_ms bigint, deadline_ms bigint, extra jsonb)
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
begin
  perform from windlass.job_workers w
    where w.id = by_worker and w.stopped_at is null and w.lease_expires_at > at for key share;
  if not found then
    return;
  end if;
  perform windlass.stay_durable();
  return query
    with picked as materialized (
      select l.ctid as place
        from unnest(lanes, after_seqs, counts) w (lane, after_seq, n)
        cross join lateral (
          select l.ctid from windlass.live l
           where l.lane = w.lane and l.seq > w.after_seq and l.token is null
           order by l.seq limit w.n
           for update skip locked) l),
    taken as (
      update windlass.live l
         set attempt = l.attempt + 1, token = with_token, worker = by_worker, claimed_at = at
        from picked p where l.ctid = p.place
      returning l.tenant_id, l.job_id, l.lane, l.seq, l.attempt, l.failures, l.lost, l.snoozes, l.max_attempts),
    counted as (
      insert into windlass.tally (tenant_id, lane, queued, running)
        select t.tenant_id, t.lane, -count(*), count(*) from taken t group by t.tenant_id, t.lane)
    select t.tenant_id, t.job_id, t.lane, t.seq, t.attempt, t.failures, t.lost, t.snoozes, t.max_attempts, b.payload,
           (extract(epoch from at - greatest(b.created_at, b.scheduled_for)) * 1000)::bigint,
           (extract(epoch from b.deadline - at) * 1000)::bigint,
           case when num_nonnulls(b.source_ref, b.correlation_id, b.subject_id, b.trace, b.tags, b.parent_id, b.created_by) > 0 then
             jsonb_build_object('source_ref', b.source_ref, 'correlation_id', b.correlation_id, 'subject_type', b.subject_type,
               'subject_id', b.subject_id, 'trace', b.trace, 'tags', b.tags, 'parent_id', b.parent_id, 'created_by', b.created_by) end
      from taken t join windlass.job b on b.tenant_id = t.tenant_id and b.id = t.job_id
     order by t.lane, t.seq;
end
$$;
