-- Looks again at the jobs that wait for any of the given ones. A need is met when its job succeeded, is gone, was
-- canceled (for a 'wait'), or ended in any way (for a 'run'); an unmet 'cancel' cancels the waiting job, which may
-- in turn decide others, hence the loop. Locks the blocked rows first: two needs that end at once would otherwise
-- each see the other still open, and the job would wait for ever.
create or replace function windlass.unblock(tenant uuid, needs uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  waiting uuid[];
  canceled uuid[];
begin
  while needs <> '{}' loop
    select array_agg(j.job_id) into waiting from (
      select b.job_id from windlass.blocked b
       where b.tenant_id = tenant
         and b.job_id in (select d.job_id from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (needs))
       order by b.job_id for update) j;

    with verdict as materialized (
      select d.needs_job_id, d.job_id, d.if_unmet, windlass.state_of(tenant, d.needs_job_id) as state
        from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (needs)),
    decided as (
      select v.*, v.state is null or v.state = 'succeeded' or v.if_unmet = 'run' or (v.if_unmet = 'wait' and v.state = 'canceled') as met
        from verdict v where v.state is null or windlass.state_code(v.state) <= 4)
    , met as (
      delete from windlass.dependency d using decided v
       where v.met and d.tenant_id = tenant and d.needs_job_id = v.needs_job_id and d.job_id = v.job_id)
    select array_agg(distinct v.job_id) into canceled from decided v where not v.met and v.if_unmet = 'cancel';

    perform windlass.finish_waiting(tenant, canceled, 4::smallint, 'dependency');
    with ready as (
      delete from windlass.blocked b
       where b.tenant_id = tenant and b.job_id = any (waiting)
         and not exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = b.job_id)
      returning b.job_id, b.lane, b.max_attempts, b.holds_dedupe, b.scheduled_for),
    later as (
      insert into windlass.deferred (tenant_id, job_id, due_at, lane, max_attempts, holds_dedupe, attempt)
        select tenant, r.job_id, r.scheduled_for, r.lane, r.max_attempts, r.holds_dedupe, windlass.last_attempt(tenant, r.job_id)
          from ready r where r.scheduled_for > now()),
    soon as (
      insert into windlass.live (tenant_id, job_id, lane, max_attempts, holds_dedupe, attempt)
        select tenant, r.job_id, r.lane, r.max_attempts, r.holds_dedupe, windlass.last_attempt(tenant, r.job_id)
          from ready r where r.scheduled_for is null or r.scheduled_for <= now() order by r.job_id
      returning lane),
    counted as (
      insert into windlass.tally (tenant_id, lane, blocked, scheduled, queued)
        select tenant, r.lane, -count(*), count(*) filter (where r.scheduled_for > now()),
               count(*) filter (where r.scheduled_for is null or r.scheduled_for <= now()) from ready r group by r.lane)
    select null into waiting from (select windlass.ring(s.lane) from soon s) rung;
    needs := canceled;
  end loop;
end
$$;
