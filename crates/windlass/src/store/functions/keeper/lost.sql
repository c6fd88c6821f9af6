-- The jobs of workers whose lease has expired, for the reaper. Reads live only if a worker is overdue. A job without a
-- body or definition is returned too, with an empty key. Tenants take turns. Rows that another transaction has locked
-- are skipped, so that they never fill a round. Also deletes the waiting rows of closed workers, which exist only after
-- their gate was locked by an open transaction: while there is such a row, every enqueue sends a notification.
-- Index: live's primary key, which is as small as the number of running jobs.
create or replace function windlass.lost_jobs(most integer default 500)
returns table (worker integer, tenant_id uuid, job_id uuid, lane integer, attempt integer, token uuid, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, cancel_requested boolean, deadline_ms bigint, definition_key text)
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
  overdue integer[] := array(select w.id from windlass.job_workers w where w.stopped_at is null
    and w.lease_expires_at <= clock_timestamp());
  holding integer[];
  has_problem boolean;
  leaked integer[];
begin
  perform windlass.check_read_committed();
  leaked := array(select w.worker from windlass.waiting w
    where not exists (select from windlass.job_workers j where j.id = w.worker and j.stopped_at is null));
  if leaked <> '{}' then
    perform windlass.end_waiting(leaked);
  end if;
  if overdue = '{}' then
    return;
  end if;
  has_problem := exists (select from windlass.problem t where t.duty = 'reap');
  return query
    with lost as materialized (
      select l.tenant_id, l.lane, l.seq, r.job_id, r.at_position,
             row_number() over (partition by l.tenant_id order by l.lane, l.seq) as turn
        from windlass.live l cross join lateral windlass.running_of(l.ids, l.ended) r
       where l.worker = any (overdue) and not (has_problem and (windlass.is_set_aside('reap', l.tenant_id, r.job_id::text)
                                                          or windlass.is_set_aside('reap', l.tenant_id, l.tenant_id::text)))),
    turns as materialized (select t.tenant_id, t.lane, t.seq, t.job_id, t.at_position from lost t order by t.turn, t.tenant_id),
    held as materialized (
      select l.worker, l.tenant_id, t.job_id, l.lane, l.attempt, l.token, l.failures, l.lost, l.snoozes, l.max_attempts,
             l.cancel_requested_at[t.at_position + 1] is not null as is_canceled
        from turns t
        join windlass.live l on l.tenant_id = t.tenant_id and l.lane = t.lane and l.seq = t.seq and l.worker = any (overdue)
         and windlass.runs_at(l.ended, t.at_position)
       limit most for update of l skip locked)
    select l.worker, l.tenant_id, l.job_id, l.lane, l.attempt, l.token, l.failures, l.lost, l.snoozes, l.max_attempts,
           l.is_canceled, windlass.milliseconds_until(b.deadline, clock_timestamp()), coalesce(d.key, '')
      from held l
      left join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
      left join windlass.lane n on n.id = l.lane
      left join windlass.job_definitions d on d.id = n.definition_id;
  if not found then
    -- No jobs left: close these workers under their row locks, so that a late heartbeat sees that its lease has expired
    -- and no claim of theirs is in progress. Only then is it certain that they hold no jobs, hence the second read.
    overdue := array(select w.id from windlass.job_workers w
      where w.id = any (overdue) and w.stopped_at is null and w.lease_expires_at <= clock_timestamp()
      order by w.id for update skip locked);
    holding := array(select l.worker from windlass.live l where l.worker = any (overdue) order by l.tenant_id, l.lane, l.seq);
    overdue := array(select o from unnest(overdue) o where o <> all (holding));
    -- A worker that did not deregister is lost; a pull worker, whose name contains @, has only stopped.
    update windlass.job_workers w
       set stopped_at = clock_timestamp(), running_count = 0,
           ended = coalesce(w.ended, case when strpos(w.worker_id, '@') > 0 then 'stopped' else 'lost' end)
     where w.id = any (overdue);
    if overdue <> '{}' then
      perform windlass.end_waiting(overdue);
    end if;
  end if;
end
$$;
