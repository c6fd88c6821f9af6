-- Ends attempts by their positions in blocks of running jobs. Each end takes effect only if the block (tenants[i],
-- lanes[i], seqs[i]) has that attempt and token and the position has not ended; the decision (details, null for a plain
-- success), the history row, the counters, the released dedupe key and the chained jobs commit together. The ids are
-- those of the block, so a worker can end nothing that it does not hold. Returns, counted from 1, the ends that took no
-- effect (null: all did), among them the busy ones, and those that took effect but were overruled by a cancel request.
-- The missed ones that are not busy lost their lease and changed nothing.
--
-- details: outcome, next (codes), delay_ms, failures, lost, snoozes, reason, error, result, artifact, exit_code, pid,
-- stdout, stderr, chain [arguments of enqueue, at most 1000], progress {percent, message}: the last report of the run,
-- which may not have been written before. An attempt keeps its last progress, regardless of what ended it; a plain
-- success has none.
-- Index: live's primary key.
-- Lock order (decision 0020): the rows of tenants with a quota if jobs are chained, because an enqueue takes them before a
-- key; blocks by their keys, dedupe rows, progress; then the keys of chained jobs and the blocked rows of jobs that wait.
-- A cancel request that came after the decision overrules it: the returned row is the newest version, so its column is
-- read at commit time.
-- One statement deletes the blocks whose last attempts end now and sets the bits of the others. It takes the first kind
-- before the second, so a call that waits for locks takes all of them before it: two such calls deadlocked. A block that
-- changes between the snapshot and the lock is evaluated again in its newest version, so no bit is lost. A block of which
-- it finds not all positions running is left to settle_touched.
-- Trap: the first column of a key is compared by `= any (array[…])` and not by `=`, so that the index has no order that
-- a merge join could use, and no plan scans it whole. After a vacuum under an old transaction, the statistics show no
-- rows in live; then such a plan seems cheapest, reads every dead entry for every batch, and 30 000 jobs a second
-- become 1 500. (A row comparison works too, but its scans end late; with = any for both columns the planner drops the
-- second.)
-- only_workers: a reap passes the workers whose expiry it has just locked and checked again.
-- skips_locked: for callers that end jobs of many tenants. An application's transaction that cancels a running job may
-- stay open for minutes; the ends of its block are then returned as busy, the block is unchanged, and the others are
-- ended. A block that was not locked since its last change has no xmax and is changed directly; any other is locked
-- first. Any other wait (for a key of a chained job) fails the call after 200 ms with lock_not_available.
-- are_locked: the caller has locked the blocks, so an end that this call misses is missed.
create or replace function windlass.settle_blocks(
  tenants uuid[], lanes integer[], seqs bigint[], attempts integer[], tokens uuid[], positions smallint[], ran_ms integer[],
  details jsonb[], only_workers integer[] default null, skips_locked boolean default false, are_locked boolean default false,
  out missed integer[], out overruled integer[], out busy integer[])
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
  settled integer[];
  jobs uuid[];
  released_to integer[];
  limited uuid[];
  touched record;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(lanes) and windlass.is_list(seqs) and windlass.is_list(attempts)
      and windlass.is_list(tokens) and windlass.is_list(positions) and windlass.is_list(ran_ms) and windlass.is_list(details)
      and windlass.is_list(only_workers)) then
    perform windlass.raise_array();
  end if;
  perform windlass.tenants_for(tenants);
  perform windlass.stay_durable();
  if skips_locked then
    perform set_config('lock_timeout', '200ms', true);
  end if;
  if not are_locked and exists (select from unnest(details) d where d ? 'chain') then
    perform windlass.lock_quota(c.tenant) from (
      select distinct i.tenant from unnest(tenants, details) i (tenant, detail) where i.detail ? 'chain' order by 1) c;
  end if;
  if not (are_locked or skips_locked) then
    perform from (select distinct i.tenant, i.lane, i.seq from unnest(tenants, lanes, seqs) i (tenant, lane, seq) order by 1, 2, 3) k
      cross join lateral (select from windlass.live l where l.tenant_id = k.tenant and l.lane = k.lane and l.seq = k.seq for update) l;
  end if;
  with named as materialized (
    select i.tenant, i.lane, i.seq, i.attempt, i.token, bit_or(1::bigint << i.at_position) as mask, count(*) as n,
           array_agg(i.ord::integer) as ords, array_agg(i.at_position) as positions, array_agg(i.ran) as ran_ms,
           array_agg(i.detail) as details,
           array_agg(case when i.detail is null then windlass.state_code('succeeded') else windlass.next_state(i.detail) end) as nexts
      from unnest(tenants, lanes, seqs, attempts, tokens, positions, ran_ms, details) with ordinality
        i (tenant, lane, seq, attempt, token, at_position, ran, detail, ord)
     where i.at_position between 0 and 63
     group by i.tenant, i.lane, i.seq, i.attempt, i.token order by i.tenant, i.lane, i.seq),
  emptied as (
    delete from windlass.live l using named g
     where l.tenant_id = any (array[g.tenant]) and l.lane = g.lane and l.seq = g.seq and l.attempt = g.attempt and l.token = g.token
       and l.ended & g.mask = 0 and l.ended | g.mask = windlass.all_bits(l.ids) and bit_count(g.mask::bit(64)) = g.n
       and (only_workers is null or l.worker = any (only_workers)) and (not skips_locked or l.xmax = '0')
    returning l.*, g.ords, g.positions, g.ran_ms, g.details, g.nexts),
  reduced as (
    update windlass.live l set ended = l.ended | g.mask from named g
     where l.tenant_id = any (array[g.tenant]) and l.lane = g.lane and l.seq = g.seq and l.attempt = g.attempt and l.token = g.token
       and l.ended & g.mask = 0 and l.ended | g.mask <> windlass.all_bits(l.ids) and bit_count(g.mask::bit(64)) = g.n
       and g.mask & ~windlass.all_bits(l.ids) = 0
       and (only_workers is null or l.worker = any (only_workers)) and (not skips_locked or l.xmax = '0')
    returning l.*, g.ords, g.positions, g.ran_ms, g.details, g.nexts),
  changed as (select * from emptied union all select * from reduced),
  ended as materialized (
    select c.tenant_id, c.ids[i.at_position + 1] as job_id, c.lane, i.ord, i.ran, i.detail, c.attempt, c.failures, c.lost, c.snoozes,
           c.max_attempts, c.holds_dedupe, c.claimed_at, c.worker, c.limited_by,
           c.cancel_requested_at[i.at_position + 1] is not null as was_canceled,
           case when c.cancel_requested_at[i.at_position + 1] is not null then windlass.state_code('canceled')
                else i.next end as next
      from changed c
      cross join lateral unnest(c.ords, c.positions, c.ran_ms, c.details, c.nexts) i (ord, at_position, ran, detail, next)),
  remembered as (
    insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, worker, exit_code, pid, outcome,
        job_status, reason, error_text, stdout_tail, stderr_tail, result, artifact, signal, max_rss_kb,
        progress_percent, progress_message)
      select e.tenant_id, e.job_id, coalesce(at - e.ran * interval '1 ms', e.claimed_at), at, e.attempt, e.lane, e.worker,
             (e.detail -> 'exit_code')::integer, (e.detail -> 'pid')::integer,
             case when e.was_canceled and (e.detail -> 'outcome')::smallint is distinct from windlass.outcome_code('lost')
                  then windlass.outcome_code('canceled')
                  else coalesce((e.detail -> 'outcome')::smallint, windlass.outcome_code('succeeded')) end,
             case when windlass.has_ended(e.next) then e.next end,
             case when e.was_canceled then 'cancel_requested' else e.detail ->> 'reason' end,
             e.detail ->> 'error', e.detail ->> 'stdout', e.detail ->> 'stderr', e.detail -> 'result',
             case when e.next = windlass.state_code('succeeded') then e.detail -> 'artifact' end,
             (e.detail -> 'signal')::smallint, (e.detail -> 'max_rss_kb')::bigint,
             case when e.detail ? 'progress' then (e.detail #>> '{progress,percent}')::real when e.detail is not null then (
               select p.percent from windlass.progress p where p.tenant_id = e.tenant_id and p.job_id = e.job_id
                      and p.attempt = e.attempt) end,
             case when e.detail ? 'progress' then e.detail #>> '{progress,message}' when e.detail is not null then (
               select p.message from windlass.progress p where p.tenant_id = e.tenant_id and p.job_id = e.job_id
                      and p.attempt = e.attempt) end
        from ended e),
  waits as (
    insert into windlass.deferred (tenant_id, job_id, due_at, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe)
      select e.tenant_id, e.job_id, at + least((e.detail -> 'delay_ms')::bigint, 3153600000000) * interval '1 ms', e.lane, e.attempt,
             (e.detail -> 'failures')::smallint, (e.detail -> 'lost')::smallint, (e.detail -> 'snoozes')::smallint,
             e.max_attempts, e.holds_dedupe
        from ended e where e.next = windlass.state_code('scheduled')),
  released as (
    insert into windlass.line (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, ids)
      select e.tenant_id, e.job_id, e.lane, e.attempt, e.failures, e.lost, e.snoozes, e.max_attempts, e.holds_dedupe, array[e.job_id]
        from ended e where e.next = windlass.state_code('queued')),
  freed as (
    delete from windlass.dedupe d using ended e
     where e.holds_dedupe and windlass.has_ended(e.next) and d.released_at_end
       and d.tenant_id = any (array[e.tenant_id]) and d.job_id = e.job_id),
  counted as (
    insert into windlass.tally (tenant_id, lane, running, queued, scheduled, succeeded, failed, dead_letter, canceled)
      select e.tenant_id, e.lane, -count(*), count(*) filter (where e.next = windlass.state_code('queued')),
             count(*) filter (where e.next = windlass.state_code('scheduled')),
             count(*) filter (where e.next = windlass.state_code('succeeded')),
             count(*) filter (where e.next = windlass.state_code('failed')),
             count(*) filter (where e.next = windlass.state_code('dead_letter')),
             count(*) filter (where e.next = windlass.state_code('canceled'))
        from ended e group by e.tenant_id, e.lane)
  select array_agg(e.ord), array_agg(e.job_id), array_agg(e.ord) filter (where e.was_canceled),
         array_agg(distinct e.lane) filter (where e.next = windlass.state_code('queued')),
         array_agg(distinct e.limited_by) filter (where e.limited_by is not null)
    into settled, jobs, overruled, released_to, limited
    from ended e;
  if settled is not null then
    perform windlass.after_settle(tenants, attempts, details, settled, jobs, overruled, at);
    perform windlass.notify_lane(l) from unnest(released_to) l;
    if pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 and windlass.has_running_limits() then
      perform windlass.notify_limits(limited, tenants, cardinality(settled));
    end if;
  end if;
  if are_locked then
    missed := nullif(array(select i from generate_subscripts(positions, 1) i where i <> all (coalesce(settled, '{}'))), '{}');
  elsif cardinality(positions) > coalesce(cardinality(settled), 0) then
    select t.* into touched from windlass.settle_touched(tenants, lanes, seqs, attempts, tokens, positions, ran_ms, details,
      only_workers, settled) t;
    missed := touched.missed;
    overruled := overruled || touched.overruled;
    busy := touched.busy;
  end if;
end
$$;
