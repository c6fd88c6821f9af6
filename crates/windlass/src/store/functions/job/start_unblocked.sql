-- Queues or schedules those of the given jobs that are blocked and have no dependency left. A job that is already
-- queued or scheduled is recorded in `problem` and skipped: it must not block the others, or the job that they waited
-- for.
create or replace function windlass.start_unblocked(tenant uuid, jobs uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  lanes integer[];
  stuck uuid[];
begin
  if jobs is null or jobs = '{}' then
    return;
  end if;
  stuck := array(
    select l.job_id from windlass.line l where l.tenant_id = tenant and l.job_id = any (jobs)
    union all
    select d.job_id from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs));
  if stuck <> '{}' then
    jobs := array(select j from unnest(jobs) j where j <> all (stuck));
    perform windlass.note_problem('unblock', tenant, s::text,
      'the job has no dependency left but cannot be unblocked: it is already queued')
       from unnest(stuck) s;
  end if;
  with ready as (
    delete from windlass.blocked b
     where b.tenant_id = tenant and b.job_id = any (jobs)
       and not exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = b.job_id)
    returning b.job_id, b.lane, b.max_attempts, b.holds_dedupe, b.scheduled_for),
  later as (
    insert into windlass.deferred (tenant_id, job_id, due_at, lane, max_attempts, holds_dedupe, attempt)
      select tenant, r.job_id, r.scheduled_for, r.lane, r.max_attempts, r.holds_dedupe, windlass.last_attempt(tenant, r.job_id)
        from ready r where r.scheduled_for > now()),
  soon as (
    insert into windlass.line (tenant_id, job_id, lane, max_attempts, holds_dedupe, attempt, ids)
      select tenant, r.job_id, r.lane, r.max_attempts, r.holds_dedupe, windlass.last_attempt(tenant, r.job_id), array[r.job_id]
        from ready r where r.scheduled_for is null or r.scheduled_for <= now() order by r.job_id
    returning lane),
  counted as (
    insert into windlass.tally (tenant_id, lane, blocked, scheduled, queued)
      select tenant, r.lane, -count(*), count(*) filter (where r.scheduled_for > now()),
             count(*) filter (where r.scheduled_for is null or r.scheduled_for <= now()) from ready r group by r.lane)
  select array_agg(distinct s.lane) into lanes from soon s;
  perform windlass.notify_lane(l) from unnest(lanes) l;
end
$$;
