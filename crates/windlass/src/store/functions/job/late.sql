-- Whether a queued job must no longer start: its instant in `expiry` has passed, and the keeper has not processed it
-- yet. An operator's retry deletes the row of a start deadline, so the job runs.
create or replace function windlass.is_late(tenant uuid, job uuid, attempts_so_far integer, at timestamptz) returns boolean
language sql stable
as $$
  select exists (select from windlass.expiry e where e.tenant_id = tenant and e.job_id = job and e.expires_at <= at
                    and (not e.only_unstarted or attempts_so_far = 0))
$$;

-- Takes the jobs out of these blocks, which a claim has just inserted, that it must not start: late ones fail, and ids
-- without a body are only counted. A late job passes through `deferred`, because finish_waiting takes it from there. Jobs
-- of many tenants are claimed here, so what an open transaction has locked, or what fails, of the jobs that wait for them
-- is left to the keeper (see unblock_or_leave).
create or replace function windlass.fail_late(blocks windlass.live[], at timestamptz) returns void
language plpgsql
set lock_timeout = '200ms'
set jit = off
as $$
#variable_conflict use_column
declare
  tenants uuid[];
  jobs uuid[];
  late record;
begin
  with unfit as materialized (
    select b.tenant_id, b.lane, b.seq, i.id, i.ord::integer - 1 as at_position, b.attempt, b.failures, b.lost, b.snoozes, b.max_attempts,
           b.holds_dedupe, j.id is not null as has_body
      from unnest(blocks) b
      cross join lateral unnest(b.ids) with ordinality i (id, ord)
      left join lateral (
        select j.id, j.deadline, j.start_by from windlass.job j where j.tenant_id = b.tenant_id and j.id = i.id offset 0) j on true
     where j.id is null
        or coalesce(j.deadline <= at or j.start_by <= at, false) and windlass.is_late(b.tenant_id, i.id, b.attempt - 1, at)),
  masks as materialized (
    select u.tenant_id, u.lane, u.seq, bit_or(1::bigint << u.at_position) as mask from unfit u group by u.tenant_id, u.lane, u.seq),
  emptied as (
    delete from windlass.live l using masks m
     where l.tenant_id = m.tenant_id and l.lane = m.lane and l.seq = m.seq and l.ended | m.mask = windlass.all_bits(l.ids)),
  reduced as (
    update windlass.live l set ended = l.ended | m.mask from masks m
     where l.tenant_id = m.tenant_id and l.lane = m.lane and l.seq = m.seq and l.ended | m.mask <> windlass.all_bits(l.ids)),
  put_aside as (
    insert into windlass.deferred (tenant_id, job_id, due_at, lane, attempt, failures, lost, snoozes, max_attempts, holds_dedupe)
      select u.tenant_id, u.id, at, u.lane, u.attempt - 1, u.failures, u.lost, u.snoozes, u.max_attempts, u.holds_dedupe
        from unfit u where u.has_body),
  counted as (
    insert into windlass.tally (tenant_id, lane, running, scheduled)
      select u.tenant_id, u.lane, -count(*), count(*) filter (where u.has_body) from unfit u group by u.tenant_id, u.lane)
  select array_agg(u.tenant_id), array_agg(u.id) into tenants, jobs from unfit u where u.has_body;
  for late in
    select u.tenant_id, array_agg(u.id) as jobs from unnest(tenants, jobs) u (tenant_id, id) group by u.tenant_id order by u.tenant_id
  loop
    -- The keeper skips a job whose position in the queue is locked.
    delete from windlass.expiry e using (
        select x.tenant_id, x.job_id, x.only_unstarted from windlass.expiry x
         where x.tenant_id = late.tenant_id and x.job_id = any (late.jobs) and x.expires_at <= at for update skip locked) d
     where e.tenant_id = d.tenant_id and e.job_id = d.job_id and e.only_unstarted = d.only_unstarted;
    late.jobs := windlass.finish_waiting(late.tenant_id, late.jobs, windlass.state_code('failed'), 'expired');
    perform windlass.unblock_or_leave(late.tenant_id, late.jobs, null);
  end loop;
end
$$;
