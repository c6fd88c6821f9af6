-- Unblocks jobs that settlements left blocked: jobs that wait for one with too many waiting jobs, and missed
-- dependencies, where a job ended while another started to wait for it and neither saw the other. Returns the number of
-- decided dependencies, and whether there are new ones left. The cost depends on what changed: see unblock_new and unblock_rest below,
-- and unblock_recent and unblock_old in unblock_old.sql.
create or replace function windlass.unblock_all(most integer default 500, out decided integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '200ms'
as $$
begin
  perform windlass.check_read_committed();
  if coalesce(most not between 1 and 100000, true) then
    perform windlass.raise_span('most', 1, 100000); -- an empty slice would end a pass over dependencies that it has not read
  end if;
  select n.decided, n.has_more into decided, has_more from windlass.unblock_new(least(most, 200)) n;
  if has_more then
    decided := decided + windlass.unblock_recent(20, 10);
  end if;
  decided := decided + windlass.unblock_rest(most) + windlass.unblock_old(least(most, 100));
  if exists (select from windlass.problem t where t.duty = 'unblock') then
    -- Of jobs that are no longer blocked, and of jobs that no job waits for any more.
    delete from windlass.problem t
     where t.duty = 'unblock'
       and not exists (select from windlass.blocked b where b.tenant_id = t.tenant_id and b.job_id::text = t.subject)
       and not exists (select from windlass.unblock_due u where u.tenant_id = t.tenant_id and u.needs_job_id::text = t.subject);
  end if;
end
$$;

-- The next batches of jobs whose settlement left dependencies undecided: too many jobs waited, or another transaction
-- had locked one. unblock adds the job again, after the others, if there is more; so does this function for one that
-- fails, with its reason. A row can also name a blocked job, which starts if it has no dependency left. Tenants take
-- turns: one may have thousands that cannot be decided while its own transaction is open.
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
      decided := decided + windlass.start_free(due.tenant_id, array[due.needs_job_id]);
      insert into windlass.unblock_due (tenant_id, needs_job_id) -- another transaction has locked it
        select b.tenant_id, b.job_id from windlass.blocked b
         where b.tenant_id = due.tenant_id and b.job_id = due.needs_job_id
           and not exists (select from windlass.dependency d where d.tenant_id = b.tenant_id and d.job_id = b.job_id)
        on conflict do nothing;
    exception when lock_not_available or deadlock_detected then
      -- An open transaction holds a lock that is needed; try again later.
      insert into windlass.unblock_due (tenant_id, needs_job_id) values (due.tenant_id, due.needs_job_id) on conflict do nothing;
    when others then
      perform windlass.raise_server_problem(sqlstate, sqlerrm);
      insert into windlass.unblock_due (tenant_id, needs_job_id) values (due.tenant_id, due.needs_job_id) on conflict do nothing;
      perform windlass.note_problem('unblock', due.tenant_id, due.needs_job_id::text,
        'the jobs that depend on it cannot be unblocked: ' || sqlerrm);
    end;
    exit when decided >= most;
  end loop;
  return decided;
end
$$;

-- Like unblock, for the functions below: what fails, for example because of a lock, is left to unblock_rest and does
-- not delay the jobs of other tenants.
create or replace function windlass.unblock_or_leave(tenant uuid, needs uuid[], jobs uuid[]) returns integer
language plpgsql
as $$
#variable_conflict use_column
begin
  return windlass.unblock(tenant, needs, jobs);
exception when others then
  perform windlass.raise_server_problem(sqlstate, sqlerrm);
  begin
    insert into windlass.unblock_due (tenant_id, needs_job_id) select tenant, n from unnest(needs) n order by n on conflict do nothing;
  exception when lock_not_available then
    null; -- the holder is about to write the same
  end;
  return 0;
end
$$;

-- Decides new dependencies. One that a settlement could not see is visible to every transaction that starts after it
-- was committed, so it must be checked again when all transactions that were in progress then have ended. Hence passes
-- over the rows from `low` on, a slice at a time: the rows of a pass are done once a later pass started after the first
-- one's `barrier`. Every row is checked two or three times. Transaction ids start again in a restored database, and so
-- do the passes.
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
  select count(*) as n, array_agg(l.xid) as xids, array_agg(l.tenant_id) as tenants, array_agg(l.needs_job_id) as needs,
         array_agg(l.job_id) as jobs
    into slice from (
      -- The expressions of the index dependency_by_xid.
      select d.xid, d.tenant_id, d.needs_job_id, d.job_id from windlass.dependency d
       where (d.xid, uuid_send(d.tenant_id) || uuid_send(d.needs_job_id) || uuid_send(d.job_id))
             > (mark.at_xid, uuid_send(mark.at_tenant) || uuid_send(mark.at_needs) || uuid_send(mark.at_job))
       order by d.xid, uuid_send(d.tenant_id) || uuid_send(d.needs_job_id) || uuid_send(d.job_id) limit most) l;
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
