-- Releases what settlements left waiting: jobs that wait for one that ended with too many behind it, and missed hand-overs, where a job
-- ended while another began to wait for it and neither saw the other. Answers how many waits it decided, and whether there are new ones
-- that it did not get to. Its cost follows what changed: see the three parts.
create or replace function windlass.unblock_all(most integer, out decided integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '200ms'
as $$
begin
  perform windlass.need_read_committed();
  select n.decided, n.has_more into decided, has_more from windlass.unblock_new(least(most, 200)) n;
  decided := decided + windlass.unblock_rest(most) + windlass.unblock_old(least(most, 100));
  if exists (select from windlass.trouble t where t.duty = 'unblock') then
    -- Of jobs that are not blocked any more, and of needs that nobody is left to be released from.
    delete from windlass.trouble t
     where t.duty = 'unblock'
       and not exists (select from windlass.blocked b where b.tenant_id = t.tenant_id and b.job_id::text = t.subject)
       and not exists (select from windlass.unblock_due u where u.tenant_id = t.tenant_id and u.needs_job_id::text = t.subject);
  end if;
end
$$;

-- The next batches of needs that a settlement left over: too many jobs waited, or somebody held one of them locked. unblock writes a need
-- down again if there is more, behind the others, and so is one that fails, with its reason. Tenants take turns: one of them may have
-- thousands that come to nothing while a transaction of its own is open.
create or replace function windlass.unblock_rest(most integer) returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
  due record;
  decided integer := 0;
begin
  for due in
    select u.tenant_id, u.needs_job_id
      from (select d.*, row_number() over (partition by d.tenant_id order by d.since) as turn from windlass.unblock_due d
             order by turn, d.since limit 100) d
      join windlass.unblock_due u on u.tenant_id = d.tenant_id and u.needs_job_id = d.needs_job_id
     order by d.turn, d.since for update of u skip locked
  loop
    delete from windlass.unblock_due u where u.tenant_id = due.tenant_id and u.needs_job_id = due.needs_job_id;
    begin
      decided := decided + windlass.unblock(due.tenant_id, array[due.needs_job_id], null, most);
    exception when lock_not_available or deadlock_detected then
      -- A transaction that is open holds what is needed: that passes.
      insert into windlass.unblock_due (tenant_id, needs_job_id) values (due.tenant_id, due.needs_job_id) on conflict do nothing;
    when others then
      perform windlass.raise_server_trouble(sqlstate, sqlerrm);
      insert into windlass.unblock_due (tenant_id, needs_job_id) values (due.tenant_id, due.needs_job_id) on conflict do nothing;
      perform windlass.note_trouble('unblock', due.tenant_id, due.needs_job_id::text, 'those that wait for the job cannot be released: ' || sqlerrm);
    end;
    exit when decided >= most;
  end loop;
  return decided;
end
$$;

-- As unblock, for the rounds below: what fails, as where somebody else holds a row, is left for the round above, and keeps no other tenant's
-- jobs waiting.
create or replace function windlass.unblock_or_leave(tenant uuid, needs uuid[], jobs uuid[]) returns integer
language plpgsql
as $$
#variable_conflict use_column
begin
  return windlass.unblock(tenant, needs, jobs);
exception when others then
  perform windlass.raise_server_trouble(sqlstate, sqlerrm);
  begin
    insert into windlass.unblock_due (tenant_id, needs_job_id) select tenant, n from unnest(needs) n order by n on conflict do nothing;
  exception when lock_not_available then
    null; -- whoever holds it is about to write the same
  end;
  return 0;
end
$$;

-- Waits that are new. One that a settlement could not see is visible to everybody who begins after it was committed, so it must be
-- looked at again when all transactions that were under way then have ended. Hence passes over the rows from `low` on, a
-- slice at a time: what a pass saw is done with once a later one began after the first one's `barrier`. Every row is looked at two or
-- three times, and then no more. Transaction numbers begin again in a restored database; so do the passes.
create or replace function windlass.unblock_new(most integer, out decided integer, out has_more boolean)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  now_running pg_snapshot := pg_current_snapshot();
  mark windlass.unblock_mark;
  slice record;
begin
  decided := 0;
  has_more := false;
  select m.* into mark from windlass.unblock_mark m for update skip locked;
  if not found then
    return;
  elsif greatest(mark.low, mark.barrier, mark.began_barrier) > pg_snapshot_xmax(now_running) then
    mark.low := '0';
    mark.passed := null;
    mark.barrier := null;
    mark.began := null;
  end if;
  if not exists (select from windlass.dependency d where d.xid >= mark.low) then
    return;
  end if;
  if mark.began is null then
    mark.began := pg_snapshot_xmin(now_running);
    mark.began_barrier := pg_snapshot_xmax(now_running);
    mark.at_xid := mark.low;
    mark.at_tenant := '00000000-0000-0000-0000-000000000000';
    mark.at_needs := mark.at_tenant;
    mark.at_job := mark.at_tenant;
  end if;
  select count(*) as n, array_agg(l.xid) as xids, array_agg(l.tenant_id) as tenants, array_agg(l.needs_job_id) as needs, array_agg(l.job_id) as jobs
    into slice from (
      select d.xid, d.tenant_id, d.needs_job_id, d.job_id from windlass.dependency d
       where (d.xid, d.tenant_id, d.needs_job_id, d.job_id) > (mark.at_xid, mark.at_tenant, mark.at_needs, mark.at_job)
       order by d.xid, d.tenant_id, d.needs_job_id, d.job_id limit most) l;
  if slice.n = most then
    has_more := true;
    mark.at_xid := slice.xids[most];
    mark.at_tenant := slice.tenants[most];
    mark.at_needs := slice.needs[most];
    mark.at_job := slice.jobs[most];
  end if;
  select coalesce(sum(windlass.unblock_or_leave(t.tenant_id, t.needs, t.jobs)), 0) into decided from (
    select l.tenant_id, array_agg(distinct l.needs) as needs, array_agg(distinct l.job) as jobs
      from unnest(slice.tenants, slice.needs, slice.jobs) l (tenant_id, needs, job) group by l.tenant_id order by l.tenant_id) t;
  if slice.n < most then
    if mark.passed is null or mark.barrier <= mark.began then
      mark.low := coalesce(mark.passed, mark.low);
      mark.passed := mark.began;
      mark.barrier := mark.began_barrier;
    end if;
    mark.began := null;
  end if;
  update windlass.unblock_mark m
     set (low, passed, barrier, began, began_barrier, at_xid, at_tenant, at_needs, at_job) =
         (mark.low, mark.passed, mark.barrier, mark.began, mark.began_barrier, mark.at_xid, mark.at_tenant, mark.at_needs, mark.at_job);
end
$$;

-- Every blocked job, a few at a time: a net under the two above, so that whatever they miss is found before long.
create or replace function windlass.unblock_old(most integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  mark record;
  slice record;
  free record;
  decided integer := 0;
begin
  select m.sweep_tenant, m.sweep_job into mark from windlass.unblock_mark m for update skip locked;
  if not found or not exists (select from windlass.blocked) then
    return 0;
  end if;
  select count(*) as n, array_agg(l.tenant_id) as tenants, array_agg(l.job_id) as jobs into slice from (
    select b.tenant_id, b.job_id from windlass.blocked b
     where (b.tenant_id, b.job_id) > (mark.sweep_tenant, mark.sweep_job) order by b.tenant_id, b.job_id limit most) l;
  select coalesce(sum(windlass.unblock_or_leave(t.tenant_id, t.needs, t.jobs)), 0) into decided from (
    select l.tenant_id, array_agg(distinct d.needs_job_id) as needs, array_agg(distinct l.job) as jobs
      from unnest(slice.tenants, slice.jobs) l (tenant_id, job)
      join windlass.dependency d on d.tenant_id = l.tenant_id and d.job_id = l.job
     group by l.tenant_id order by l.tenant_id) t;
  for free in
    select l.tenant_id, array_agg(l.job) as jobs from unnest(slice.tenants, slice.jobs) l (tenant_id, job)
      join windlass.blocked b on b.tenant_id = l.tenant_id and b.job_id = l.job
     where not exists (select from windlass.dependency d where d.tenant_id = l.tenant_id and d.job_id = l.job)
     group by l.tenant_id order by l.tenant_id
  loop
    free.jobs := array(select b.job_id from windlass.blocked b
      where b.tenant_id = free.tenant_id and b.job_id = any (free.jobs) order by b.job_id for update skip locked);
    begin
      perform windlass.start_unblocked(free.tenant_id, free.jobs);
      decided := decided + cardinality(free.jobs);
    exception when lock_not_available or deadlock_detected then
      null; -- at the next sweep
    when others then
      perform windlass.raise_server_trouble(sqlstate, sqlerrm);
      perform windlass.note_trouble('unblock', free.tenant_id, free.jobs[1]::text, 'jobs that wait for nothing cannot be released: ' || sqlerrm);
    end;
  end loop;
  mark.sweep_tenant := case when slice.n < most then '00000000-0000-0000-0000-000000000000' else slice.tenants[most] end;
  mark.sweep_job := case when slice.n < most then '00000000-0000-0000-0000-000000000000' else slice.jobs[most] end;
  update windlass.unblock_mark m set sweep_tenant = mark.sweep_tenant, sweep_job = mark.sweep_job
   where (m.sweep_tenant, m.sweep_job) <> (mark.sweep_tenant, mark.sweep_job);
  return decided;
end
$$;
