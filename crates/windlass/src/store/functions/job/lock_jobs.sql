-- Locks the rows of many jobs before any of them is moved, in the lock order of decision 0020: blocked and deferred rows
-- by job, rows of the line by (lane, seq), blocks of running jobs by (lane, seq). Jobs that wait for one of them, and
-- jobs that are canceled with those, are locked with the blocked ones, at most `most`: a cancel or a purge decides them too (see unblock).
-- Locked one job at a time, two calls with the same jobs, rows of the line or waiting jobs deadlock.
-- In the order in which jobs move, so that a job that moves while this call waits is found at its next position. A
-- settlement locks the jobs that wait after the block, but does not wait long for them (see lock_blocked).
-- Index: as in lock_line; the primary keys.
-- Trap: a job whose attempt ends and that is queued or scheduled again meanwhile is not locked. The caller finds it, and
-- locks it out of order.
create or replace function windlass.lock_jobs(tenant uuid, jobs uuid[], most integer) returns void
language plpgsql
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  waiting uuid[];
begin
  if jobs is null or jobs = '{}' then
    return;
  end if;
  with recursive reach (job_id, falls) as (
    select d.job_id, d.if_unmet = 'cancel' from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (jobs)
    union
    select d.job_id, d.if_unmet = 'cancel' from reach r
      join windlass.dependency d on d.tenant_id = tenant and d.needs_job_id = r.job_id
     where r.falls)
  select array_agg(distinct r.job_id) into waiting from (select r.job_id from reach r limit most) r;
  perform from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs || waiting) order by b.job_id for update;
  perform from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs) order by d.job_id for update;
  perform windlass.lock_line(tenant, jobs);
  perform from (select distinct r.lane, r.seq from windlass.running r where r.tenant_id = tenant and r.job_id = any (jobs) order by 1, 2) k
    cross join lateral (select from windlass.live l where l.tenant_id = tenant and l.lane = k.lane and l.seq = k.seq for update) l;
end
$$;

-- Locks the rows of the line that contain these jobs, by (lane, seq), and returns their keys; null if there is none.
-- Waits for a claim that takes one of them.
-- Index: bodies by primary key, then line by (lane, seq), and line_by_job for jobs that were queued again.
-- settle_blocks.sql explains `= any`.
create or replace function windlass.lock_line(tenant uuid, jobs uuid[], out lanes integer[], out seqs bigint[])
language plpgsql
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  select array_agg(s.lane order by s.lane, s.seq), array_agg(s.seq order by s.lane, s.seq) into lanes, seqs from (
    select l.lane, l.seq from windlass.job b
      join windlass.line l on l.lane = b.lane and l.seq = b.line_seq and l.tenant_id = b.tenant_id
     where b.tenant_id = tenant and b.id = any (jobs) and b.id = any (l.ids)
    union
    select l.lane, l.seq from windlass.line l where l.tenant_id = tenant and l.job_id = any (jobs)) s;
  if lanes is not null then
    perform from unnest(lanes, seqs) s (lane, seq)
      cross join lateral (select from windlass.line l where l.lane = s.lane and l.seq = s.seq and l.tenant_id = tenant for update) l;
  end if;
end
$$;
