-- Whether a queued job must not start any more: its instant in `expiry` has passed, and the keeper has not processed it
-- yet. An operator's retry of an expired job finds no such row, so the job runs.
create or replace function windlass.is_late(tenant uuid, job uuid, attempts_so_far integer, at timestamptz) returns boolean
language sql stable
as $$
  select exists (select from windlass.expiry e where e.tenant_id = tenant and e.job_id = job and e.expires_at <= at
                    and (not e.only_unstarted or attempts_so_far = 0))
$$;

-- Fails the late jobs among those that a claim found in these rows, the first takes[i] of each. Jobs without a body
-- have already left the line and are only counted. Jobs of many tenants are claimed here, so what an open transaction has
-- locked, or what fails, of the jobs that wait for them is left to the keeper (see unblock_or_leave).
create or replace function windlass.fail_late(places windlass.line[], takes integer[], at timestamptz) returns void
language plpgsql
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  late record;
begin
  for late in
    select p.tenant_id, array_agg(i.id) as jobs
      from unnest(places) with ordinality p
      cross join lateral unnest(p.ids[:takes[p.ordinality]]) i (id)
     where windlass.is_late(p.tenant_id, i.id, p.attempt, at)
     group by p.tenant_id order by p.tenant_id
  loop
    -- The keeper skips a job whose position in the queue is locked.
    delete from windlass.expiry e using (
        select x.tenant_id, x.job_id, x.only_unstarted from windlass.expiry x
         where x.tenant_id = late.tenant_id and x.job_id = any (late.jobs) and x.expires_at <= at for update skip locked) d
     where e.tenant_id = d.tenant_id and e.job_id = d.job_id and e.only_unstarted = d.only_unstarted;
    late.jobs := windlass.finish_waiting(late.tenant_id, late.jobs, windlass.state_code('failed'), 'expired');
    perform windlass.unblock_or_leave(late.tenant_id, late.jobs, null);
  end loop;
  insert into windlass.tally (tenant_id, lane, queued)
    select p.tenant_id, p.lane, -count(*)
      from unnest(places) with ordinality p
      cross join lateral unnest(p.ids[:takes[p.ordinality]]) i (id)
     where not exists (select from windlass.job b where b.tenant_id = p.tenant_id and b.id = i.id)
     group by p.tenant_id, p.lane;
end
$$;
