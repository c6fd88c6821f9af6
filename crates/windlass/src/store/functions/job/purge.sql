-- Deletes jobs in any state: bodies, history, position in the queue, keys. A running attempt loses its lease. Updates
-- the counters. A blocked job that waits for one of them is decided as if that one had been canceled. keep_promises is
-- for retention, whose jobs have ended: it keeps keys that are held forever or for a window that has not ended, and
-- keeps jobs that a blocked job waits for. Returns the number of deleted bodies. Callers pass batches, so that no
-- transaction is long. Only other functions call it; those below are for operators.
-- Lock order: the gate of holds; the gate `circle` if there are dependencies; leases of pull workers; the rows that move
-- the jobs, and the waiting jobs (see lock_jobs); final history rows;
-- dedupe rows, ordering rows, bodies, each kind by key; an enqueue takes the last three in the same order. Retention
-- locks the last four before it calls, skipping locked ones.
create or replace function windlass.purge_unaudited(tenant uuid, jobs uuid[], keep_promises boolean default false) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  purged integer;
  needed uuid[];
  ordering_keys text[];
  held uuid[];
begin
  if not windlass.is_list(jobs) then
    perform windlass.raise_array('jobs');
  end if;
  perform windlass.check_read_committed();
  perform windlass.tenant_for(tenant);
  if not exists (select from windlass.tenants t where t.id = tenant) then
    return 0; -- the gate would stay
  end if;
  perform windlass.share_gate(tenant, 'hold'); -- waits for a hold that is being placed
  held := windlass.held_jobs(tenant, jobs);
  if held <> '{}' then
    raise exception 'job % is under legal hold', held[1] using errcode = 'WL020', detail = held[1]::text;
  end if;
  perform windlass.stay_durable();
  if keep_promises then
    -- Retention has locked them; another caller locks them here. What has not ended, or is locked, is kept.
    jobs := array(select h.job_id from windlass.history h
      where h.tenant_id = tenant and h.job_id = any (jobs) and h.job_status is not null order by h.job_id for update skip locked);
    held := windlass.needed_jobs(tenant, jobs);
    jobs := array(select j from unnest(jobs) j where j <> all (held));
  else
    -- A purge hands the dependencies of its jobs on to others, which lock_jobs cannot know: one at a time, as a retry.
    if exists (select from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (jobs))
       or exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = any (jobs)) then
      perform windlass.take_turn(tenant, 'circle');
    end if;
    perform from windlass.pull_lease r where r.tenant_id = tenant and r.job_id = any (jobs) order by r.job_id for update;
    perform windlass.lock_jobs(tenant, jobs, 1000000);
    perform from windlass.history h
      where h.tenant_id = tenant and h.job_id = any (jobs) and h.job_status is not null order by h.job_id for update;
    -- A job that waits for one that has ended is decided now, by its final status: later the status is unknown.
    perform windlass.unblock(tenant, array(select distinct d.needs_job_id from windlass.dependency d
      where d.tenant_id = tenant and d.needs_job_id = any (jobs)), null, 1000000);
  end if;
  -- A job that moves during the delete is found at its new position by the next iteration.
  loop
    with from_line as materialized (select l.lane, 'queued' as state from windlass.leave_line(tenant, jobs) l),
    held as materialized (
      select r.lane, r.seq, bit_or(1::bigint << r.at_position) as mask, count(*) as n from windlass.running r
       where r.tenant_id = tenant and r.job_id = any (jobs) group by r.lane, r.seq),
    emptied as (
      delete from windlass.live l using held h
       where l.tenant_id = tenant and l.lane = h.lane and l.seq = h.seq and l.ended & h.mask = 0
         and l.ended | h.mask = windlass.all_bits(l.ids) returning l.lane, h.n),
    reduced as (
      update windlass.live l set ended = l.ended | h.mask from held h
       where l.tenant_id = tenant and l.lane = h.lane and l.seq = h.seq and l.ended & h.mask = 0
         and l.ended | h.mask <> windlass.all_bits(l.ids) returning l.lane, h.n),
    from_live as (
      select h.lane, 'running' as state from (select * from emptied union all select * from reduced) h
       cross join lateral generate_series(1, h.n)),
    from_time as (delete from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs)
      returning d.lane, 'scheduled' as state),
    from_jobs as (delete from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs) returning b.lane, 'blocked' as state),
    from_history as (delete from windlass.history h where h.tenant_id = tenant and h.job_id = any (jobs)
      returning h.lane, windlass.state_name(h.job_status) as state),
    gone as (select * from from_line union all select * from from_live union all select * from from_time union all select * from from_jobs
             union all select * from from_history where state is not null)
    insert into windlass.tally (tenant_id, lane, queued, running, scheduled, blocked, succeeded, failed, dead_letter, canceled, purged)
      select tenant, g.lane, -count(*) filter (where g.state = 'queued'), -count(*) filter (where g.state = 'running'),
             -count(*) filter (where g.state = 'scheduled'), -count(*) filter (where g.state = 'blocked'),
             -count(*) filter (where g.state = 'succeeded'), -count(*) filter (where g.state = 'failed'),
             -count(*) filter (where g.state = 'dead_letter'), -count(*) filter (where g.state = 'canceled'), count(*)
        from gone g group by g.lane;
    exit when not exists (
      select from windlass.queued s where s.tenant_id = tenant and s.job_id = any (jobs)
      union all select from windlass.running r where r.tenant_id = tenant and r.job_id = any (jobs)
      union all select from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs)
      union all select from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs)
      union all select from windlass.history h where h.tenant_id = tenant and h.job_id = any (jobs));
  end loop;
  if not keep_promises then
    perform from windlass.dedupe d where d.tenant_id = tenant and d.job_id = any (jobs) order by d.dedupe_key collate "C" for update;
  end if;
  delete from windlass.dedupe d where d.tenant_id = tenant and d.job_id = any (jobs)
    and (d.until <= clock_timestamp() or not keep_promises);
  perform from windlass.ordering o
    where o.tenant_id = tenant and o.last_job_id = any (jobs)
      and o.ordering_key in (select b.ordering_key from windlass.job b where b.tenant_id = tenant and b.id = any (jobs))
    order by o.ordering_key collate "C" for update;
  if not keep_promises then
    perform from windlass.job b where b.tenant_id = tenant and b.id = any (jobs) order by b.id for update;
  end if;
  with unwaited as (delete from windlass.dependency d where d.tenant_id = tenant and d.job_id = any (jobs)
      and not coalesce(d.is_ordering, windlass.share_ordering_key(tenant, d.needs_job_id, d.job_id))),
  unexpiring as (delete from windlass.expiry e where e.tenant_id = tenant and e.job_id = any (jobs)),
  uncleaned as (delete from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = any (jobs)),
  unpassed as (delete from windlass.prune_passed p where p.tenant_id = tenant and p.job_id = any (jobs)),
  unreported as (delete from windlass.progress p where p.tenant_id = tenant and p.job_id = any (jobs)),
  unlogged as (delete from windlass.job_log o where o.tenant_id = tenant and o.job_id = any (jobs)),
  unleased as (delete from windlass.pull_lease r where r.tenant_id = tenant and r.job_id = any (jobs)),
  unasked as (delete from windlass.cancel_request c where c.tenant_id = tenant and c.job_id = any (jobs)),
  bodies as (delete from windlass.job b where b.tenant_id = tenant and b.id = any (jobs) returning b.ordering_key)
  select count(*), array_agg(distinct b.ordering_key) filter (where b.ordering_key is not null)
    into purged, ordering_keys from bodies b;
  -- Only now: an enqueue that started to wait for one of them holds a lock on its body.
  needed := array(select distinct d.needs_job_id from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (jobs));
  perform windlass.unblock(tenant, needed);
  if ordering_keys is not null then
    -- The last job of a key was deleted and no job waits for an earlier one, so the key can start again. In key order,
    -- and after the dedupe rows, as in an enqueue.
    delete from windlass.ordering o using (
        select x.ordering_key from windlass.ordering x
         where x.tenant_id = tenant and x.ordering_key = any (ordering_keys) and x.last_job_id = any (jobs)
           and not exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = x.last_job_id)
         order by x.ordering_key collate "C" for update) gone
     where o.tenant_id = tenant and o.ordering_key = gone.ordering_key;
  end if;
  return purged;
end
$$;

-- The same for an operator, with a row in the audit trail. At most 1000 jobs, so that the row names each that was
-- deleted. `filter`: how the caller found them.
drop function if exists windlass.purge(uuid, uuid[], boolean); -- of earlier builds
create or replace function windlass.purge(tenant uuid, jobs uuid[], keep_promises boolean default false, filter jsonb default null)
returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  purged integer;
  found uuid[];
begin
  perform windlass.check_many(jobs, filter);
  found := array(select b.id from windlass.job b where b.tenant_id = tenant and b.id = any (jobs) order by b.id);
  purged := windlass.purge_unaudited(tenant, jobs, keep_promises);
  if purged > 0 then
    perform windlass.record_act(tenant, 'job.delete_many',
      cardinality(jobs) || case cardinality(jobs) when 1 then ' job' else ' jobs' end, null,
      jsonb_build_object('filter', coalesce(filter, '{}'), 'changed', purged, 'ids',
        to_jsonb(array(select f.id from unnest(found) f (id)
          where not exists (select from windlass.job b where b.tenant_id = tenant and b.id = f.id)))));
  end if;
  return purged;
end
$$;

-- Deletes the jobs of one subject in batches: call until it returns 0.
create or replace function windlass.purge_subject(tenant uuid, of_type text, of_id text, most integer default 1000) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  purged integer;
begin
  if most is null or most < 1 then
    raise exception 'most must be at least 1, not %', coalesce(most::text, 'null') using errcode = 'WL007', column = 'most';
  end if;
  purged := windlass.purge_unaudited(tenant, array(
    select b.id from windlass.job b
     where b.tenant_id = tenant and b.subject_type is not distinct from of_type and b.subject_id = of_id limit most));
  if purged > 0 then
    perform windlass.record_act(tenant, 'job.delete_many', purged || case purged when 1 then ' job' else ' jobs' end, null,
      jsonb_build_object('filter', jsonb_build_object('subject_type', of_type, 'subject_id', of_id), 'changed', purged));
  end if;
  return purged;
end
$$;
