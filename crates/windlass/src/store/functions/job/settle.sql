-- Ends attempts. Each end takes effect only if the job is still running that attempt with that token; the decision
-- (details, null for a plain success), the history row, the counters, the released dedupe key and the chained jobs
-- commit together. Returns the positions that took effect and those overruled by a cancel request. The others lost
-- their lease and changed nothing.
--
-- details: outcome, next (codes), delay_ms, failures, lost, snoozes, reason, error, result, artifact, exit_code, pid,
-- stdout, stderr, chain [arguments of enqueue, at most 1000], progress {percent, message}: the last report of the run,
-- which may not have been written before. An attempt keeps its last progress, regardless of what ended it; a plain
-- success has none.
-- Index: live's primary key.
-- Lock order (decision 0020): the rows of tenants with a quota if jobs are chained, because an enqueue takes them before a
-- key; live rows in the given order (callers sort by tenant and job), dedupe rows, progress; then the keys of chained
-- jobs and the blocked rows of jobs that wait. A cancel request that came after the decision
-- overrules it: the returned row is the newest version, so its column is read at commit time.
-- Trap: the first column of a key is compared by `= any (array[…])` and not by `=`, so that the index has no order that
-- a merge join could use, and no plan scans it whole. After a vacuum under an old transaction, the statistics show no
-- rows in live; then such a plan seems cheapest, reads every dead entry for every batch, and 30 000 jobs a second
-- become 1 500. (A row comparison works too, but its scans end late; with = any for both columns the planner drops the
-- second.)
-- only_workers: a reap passes the workers whose expiry it has just locked and checked again.
-- skips_locked: for callers that end jobs of many tenants. An application's transaction that cancels a running job may
-- stay open for minutes; the job's position is then returned as busy, its row is unchanged, and the others are ended. A
-- row that was not touched since the claim has no xmax and is deleted directly; any other is locked first. Any other
-- wait (for a key of a chained job) fails the call after 200 ms with lock_not_available.
create or replace function windlass.settle(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], ran_ms integer[], details jsonb[],
  only_workers integer[] default null, skips_locked boolean default false,
  out settled integer[], out overruled integer[], out busy integer[])
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
  released_to integer[];
  limited uuid[];
  touched record;
  has_chain boolean;
begin
  if not (windlass.is_list(tenants) and windlass.is_list(jobs) and windlass.is_list(attempts) and windlass.is_list(tokens)
      and windlass.is_list(ran_ms) and windlass.is_list(details) and windlass.is_list(only_workers)) then
    perform windlass.refuse_array();
  end if;
  perform windlass.tenants_for(tenants);
  perform windlass.stay_durable();
  if skips_locked then
    perform set_config('lock_timeout', '200ms', true);
  end if;
  has_chain := exists (select from unnest(details) d where d ? 'chain');
  if has_chain then
    perform windlass.lock_quota(c.tenant) from (
      select distinct tenants[d.ord] as tenant from unnest(details) with ordinality d (detail, ord) where d.detail ? 'chain' order by 1) c;
  end if;
  with input as materialized (
    select i.*, case when i.detail is null then windlass.state_code('succeeded') else windlass.next_state(i.detail) end as next
      from unnest(tenants, jobs, attempts, tokens, ran_ms, details) with ordinality
        i (tenant, job, attempt, token, ran, detail, ord)),
  ended as (
    delete from windlass.live l using input i
     where l.tenant_id = any (array[i.tenant]) and l.job_id = i.job
       and l.attempt = i.attempt and l.token = i.token and (only_workers is null or l.worker = any (only_workers))
       and (not skips_locked or l.xmax = '0')
    returning l.tenant_id, l.job_id, l.lane, i.ord, i.ran, i.detail,
      case when l.cancel_requested_at is null then i.next else windlass.state_code('canceled') end as next, l.attempt,
      l.failures, l.lost, l.snoozes, l.holds_dedupe, l.cancel_requested_at is not null as was_canceled, l.claimed_at, l.max_attempts,
      l.worker, l.limited_by),
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
  select array_agg(e.ord::integer), array_agg(e.ord::integer) filter (where e.was_canceled),
         array_agg(distinct e.lane) filter (where e.next = windlass.state_code('queued')),
         array_agg(distinct e.limited_by) filter (where e.limited_by is not null)
    into settled, overruled, released_to, limited
    from ended e;

  if exists (select from unnest(details) d where d ? 'progress') then
    insert into windlass.progress as p (tenant_id, job_id, attempt, percent, message, updated_at)
      select tenants[o], jobs[o], attempts[o], (details[o] #>> '{progress,percent}')::real, details[o] #>> '{progress,message}', at
        from unnest(settled) o where details[o] ? 'progress' order by 1, 2
      on conflict (tenant_id, job_id) do update
        set attempt = excluded.attempt, percent = excluded.percent, message = excluded.message, updated_at = excluded.updated_at
        where p.attempt <= excluded.attempt;
  end if;
  if overruled is not null then
    -- A separate statement, because the one above may have waited for the cancel whose request it could not see.
    delete from windlass.cancel_request c using unnest(overruled) o
     where c.tenant_id = tenants[o] and c.job_id = jobs[o];
  end if;
  if released_to is not null then
    perform windlass.ring(l) from unnest(released_to) l;
  end if;
  if settled is not null and pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 and windlass.has_running_limits() then
    perform windlass.ring_for_room(limited, tenants, cardinality(settled));
  end if;
  if has_chain then
    perform windlass.enqueue_chains(tenants, jobs, details,
      array(select o from unnest(settled) o where o <> all (coalesce(overruled, '{}'))));
  end if;
  -- A separate statement too: a job that starts to wait for one of these is either visible here, or was committed after
  -- this transaction got its id, and then the keeper checks it after this transaction has ended (see unblock_all).
  if exists (select from windlass.dependency) then
    perform windlass.unblock(t.tenant, t.needs)
       from (select tenants[o] as tenant, array_agg(jobs[o]) as needs from unnest(settled) o
              where exists (select from windlass.dependency d where d.tenant_id = tenants[o] and d.needs_job_id = jobs[o])
              group by 1 order by 1) t;
  end if;
  if skips_locked and cardinality(jobs) > coalesce(cardinality(settled), 0) then
    select * into touched from windlass.settle_touched(tenants, jobs, attempts, tokens, ran_ms, details, only_workers, settled);
    settled := settled || touched.settled;
    overruled := overruled || touched.overruled;
    busy := touched.busy;
  end if;
end
$$;

-- Of the attempts that settle has skipped, ends those whose rows it can lock now, and returns those that another
-- transaction has locked. The rest lost their lease.
create or replace function windlass.settle_touched(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], ran_ms integer[], details jsonb[], only_workers integer[], done integer[],
  out settled integer[], out overruled integer[], out busy integer[])
language plpgsql
as $$
#variable_conflict use_column
declare
  mine integer[];
  ended record;
begin
  select array_agg(i.ord::integer) into busy
    from unnest(tenants, jobs, attempts, tokens) with ordinality i (tenant, job, attempt, token, ord)
    join windlass.live l on l.tenant_id = any (array[i.tenant]) and l.job_id = i.job and l.attempt = i.attempt and l.token = i.token
   where i.ord <> all (coalesce(done, '{}')) and (only_workers is null or l.worker = any (only_workers));
  if busy is null then
    return;
  end if;
  mine := array(
    select o.ord from unnest(busy) o (ord)
      cross join lateral (select from windlass.live l where l.tenant_id = tenants[o.ord] and l.job_id = jobs[o.ord]
        for update skip locked) l);
  busy := nullif(array(select o from unnest(busy) o where o <> all (mine)), '{}');
  if mine <> '{}' then
    select s.settled, s.overruled into ended from windlass.settle(
      array(select tenants[o] from unnest(mine) o), array(select jobs[o] from unnest(mine) o),
      array(select attempts[o] from unnest(mine) o), array(select tokens[o] from unnest(mine) o),
      array(select ran_ms[o] from unnest(mine) o), array(select details[o] from unnest(mine) o), only_workers) s;
    settled := nullif(array(select mine[o] from unnest(ended.settled) o), '{}'); -- another attempt may have started
    overruled := nullif(array(select mine[o] from unnest(ended.overruled) o), '{}');
  end if;
end
$$;
