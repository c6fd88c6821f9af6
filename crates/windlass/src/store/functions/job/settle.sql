-- Ends attempts. Each takes effect only if the job is still running that attempt under that token; what was
-- decided (details, null for a plain success) becomes true together with its history row, its counters, the freed
-- dedupe slot and the chained jobs. Returns the positions that took effect, those overruled by a cancel request,
-- and for how many others the lease was lost (they changed nothing).
--
-- details: outcome, next (codes), delay_ms, failures, lost, snoozes, reason, error, result, artifact, exit_code, pid,
-- stdout, stderr, chain [arguments of enqueue, at most 1000], progress {percent, message}: the run's last word, which may not have
-- been written before it ended. An attempt keeps its last progress, whoever ends it; a plain success said nothing.
-- Index: live's primary key. Locks: live rows in the order given (callers sort by tenant and job), then dedupe.
-- A cancel request that came after the decision wins over it: the returned row is the newest version, so the
-- deciding column is read at commit time.
-- The first part of a key is looked for by = any (array[…]) and not by =, so that the index has no order that a merge join could use, and
-- thus no plan reads it from end to end. After a vacuum under an old transaction the books say that live holds no row; then such a plan
-- looks cheapest, reads every dead entry for every batch, and 30 000 jobs a second become 1 500. (A comparison of rows would do
-- too, but its scans end late; = any for both parts lets the planner drop the second.)
-- only_workers: a reap passes the workers whose expiry it has just locked and re-checked.
-- skips_locked: for whoever ends jobs of many tenants. An application's transaction that cancels a running job may stay open for minutes;
-- the job's position is then answered as busy, its row is left as it is, and the others are ended. A row that nobody has touched since the
-- claim has no xmax, so it is deleted as it is; only one that has is looked at again, with a lock. Whatever else has to be waited for
-- (a key of a chained job) fails the call after 200 ms with lock_not_available.
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
begin
  perform windlass.tenants_for(tenants);
  perform windlass.stay_durable();
  if skips_locked then
    perform set_config('lock_timeout', '200ms', true);
  end if;
  if exists (select from unnest(details) d where d ? 'progress') then
    perform windlass.report_progress(array_agg(i.tenant), array_agg(i.job), array_agg(i.attempt), array_agg(i.token),
        array_agg((i.detail #>> '{progress,percent}')::real), array_agg(i.detail #>> '{progress,message}'))
       from unnest(tenants, jobs, attempts, tokens, details) i (tenant, job, attempt, token, detail) where i.detail ? 'progress';
  end if;
  with input as materialized (
    select i.*, coalesce((i.detail -> 'next')::smallint, 1::smallint) as next
      from unnest(tenants, jobs, attempts, tokens, ran_ms, details) with ordinality
        i (tenant, job, attempt, token, ran, detail, ord)),
  ended as (
    delete from windlass.live l using input i
     where l.tenant_id = any (array[i.tenant]) and l.job_id = i.job
       and l.attempt = i.attempt and l.token = i.token and (only_workers is null or l.worker = any (only_workers))
       and (not skips_locked or l.xmax = '0')
    returning l.tenant_id, l.job_id, l.lane, i.ord, i.ran, i.detail,
      case when l.cancel_requested_at is null then i.next else 4 end::smallint as next, l.attempt,
      l.failures, l.lost, l.snoozes, l.holds_dedupe, l.cancel_requested_at is not null as was_canceled, l.claimed_at, l.max_attempts, l.worker,
      l.limited_by),
  remembered as (
    insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, worker, exit_code, pid, outcome,
        job_status, reason, error_text, stdout_tail, stderr_tail, result, artifact, signal, max_rss_kb,
        progress_percent, progress_message)
      select e.tenant_id, e.job_id, coalesce(at - e.ran * interval '1 ms', e.claimed_at), at, e.attempt, e.lane, e.worker,
             (e.detail -> 'exit_code')::integer, (e.detail -> 'pid')::integer,
             case when e.was_canceled and coalesce((e.detail -> 'outcome')::smallint, 1) <> 5 then 4
                  else coalesce((e.detail -> 'outcome')::smallint, 1) end,
             case when e.next <= 4 then e.next end,
             case when e.was_canceled then 'cancel_requested' else e.detail ->> 'reason' end,
             e.detail ->> 'error', e.detail ->> 'stdout', e.detail ->> 'stderr', e.detail -> 'result',
             case when e.next = 1 then e.detail -> 'artifact' end,
             (e.detail -> 'signal')::smallint, (e.detail -> 'max_rss_kb')::bigint,
             case when e.detail is not null then (
               select p.percent from windlass.progress p where p.tenant_id = e.tenant_id and p.job_id = e.job_id and p.attempt = e.attempt) end,
             case when e.detail is not null then (
               select p.message from windlass.progress p where p.tenant_id = e.tenant_id and p.job_id = e.job_id and p.attempt = e.attempt) end
        from ended e),
  waits as (
    insert into windlass.deferred (tenant_id, job_id, due_at, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe)
      select e.tenant_id, e.job_id, at + least((e.detail -> 'delay_ms')::bigint, 3153600000000) * interval '1 ms', e.lane, e.attempt,
             (e.detail -> 'failures')::smallint, (e.detail -> 'lost')::smallint, (e.detail -> 'snoozes')::smallint,
             e.max_attempts, e.holds_dedupe
        from ended e where e.next = 7),
  released as (
    insert into windlass.line (tenant_id, job_id, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe, ids)
      select e.tenant_id, e.job_id, e.lane, e.attempt, e.failures, e.lost, e.snoozes, e.max_attempts, e.holds_dedupe, array[e.job_id]
        from ended e where e.next = 5),
  freed as (
    delete from windlass.dedupe d using ended e
     where e.holds_dedupe and e.next <= 4 and d.released_at_end
       and d.tenant_id = any (array[e.tenant_id]) and d.job_id = e.job_id),
  counted as (
    insert into windlass.tally (tenant_id, lane, running, queued, scheduled, succeeded, failed, dead_letter, canceled)
      select e.tenant_id, e.lane, -count(*), count(*) filter (where e.next = 5), count(*) filter (where e.next = 7),
             count(*) filter (where e.next = 1), count(*) filter (where e.next = 2),
             count(*) filter (where e.next = 3), count(*) filter (where e.next = 4)
        from ended e group by e.tenant_id, e.lane)
  select array_agg(e.ord::integer), array_agg(e.ord::integer) filter (where e.was_canceled),
         array_agg(distinct e.lane) filter (where e.next = 5),
         array_agg(distinct e.limited_by) filter (where e.limited_by is not null)
    into settled, overruled, released_to, limited
    from ended e;

  if overruled is not null then
    -- On its own, because the statement above may have waited for the very cancel whose request it could not see.
    delete from windlass.cancel_request c using unnest(overruled) o
     where c.tenant_id = tenants[o] and c.job_id = jobs[o];
  end if;
  if released_to is not null then
    perform windlass.ring(l) from unnest(released_to) l;
  end if;
  if settled is not null and pg_sequence_last_value('windlass.workers_wait'::regclass) > 0 and windlass.has_running_limits() then
    perform windlass.ring_for_room(limited, tenants, cardinality(settled));
  end if;
  if exists (select from unnest(details) d where d ? 'chain') then
    if exists (select from unnest(details) d where jsonb_array_length(d -> 'chain') > 1000) then
      raise exception 'a job may be followed by at most 1000 others' using errcode = 'WL007', column = 'next';
    end if;
    perform windlass.enqueue_chain(tenants[o.ord], jobs[o.ord], link)
       from unnest(settled) o (ord) cross join lateral jsonb_array_elements(details[o.ord] -> 'chain') link
      where o.ord <> all (coalesce(overruled, '{}'));
  end if;
  -- Looked for on its own too: a job that begins to wait for one of these either is seen here, or was committed after we had a
  -- transaction number, and then the keeper knows to look at it once we have ended (see unblock_all).
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

-- Of the attempts that settle has passed over, ends those whose rows it can lock now, and answers which somebody else holds. The rest
-- has lost its lease.
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
      cross join lateral (select from windlass.live l where l.tenant_id = tenants[o.ord] and l.job_id = jobs[o.ord] for update skip locked) l);
  busy := nullif(array(select o from unnest(busy) o where o <> all (mine)), '{}');
  if mine <> '{}' then
    select s.settled, s.overruled into ended from windlass.settle(
      array(select tenants[o] from unnest(mine) o), array(select jobs[o] from unnest(mine) o), array(select attempts[o] from unnest(mine) o),
      array(select tokens[o] from unnest(mine) o), array(select ran_ms[o] from unnest(mine) o), array(select details[o] from unnest(mine) o),
      only_workers) s;
    settled := nullif(array(select mine[o] from unnest(ended.settled) o), '{}'); -- somebody else's attempt by now
    overruled := nullif(array(select mine[o] from unnest(ended.overruled) o), '{}');
  end if;
end
$$;
