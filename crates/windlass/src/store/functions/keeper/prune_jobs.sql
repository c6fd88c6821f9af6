-- Deletes finished jobs of one tenant for retention. What stays is written into prune_passed, from where its rule comes back to it: jobs
-- that somebody has locked, that a blocked job waits for, and that could not be deleted.
-- handled: how many of the jobs were neither locked nor waited for. gone: how many were deleted.
create or replace function windlass.prune_jobs(tenant uuid, jobs uuid[], ended_as smallint, out handled integer, out gone integer)
language plpgsql
as $$
#variable_conflict use_column
declare
  locked uuid[];
  needed uuid[];
  waiting uuid[];
  failed uuid[];
begin
  -- An operator may be retrying one of them.
  locked := array(
    select h.job_id from windlass.history h
     where h.tenant_id = tenant and h.job_id = any (jobs) and h.job_status = ended_as
     order by h.job_id for update skip locked);
  needed := windlass.needed_jobs(tenant, locked);
  handled := cardinality(locked) - cardinality(needed);
  waiting := windlass.clean_up_first(tenant, array(select j from unnest(locked) j where j <> all (needed)));
  select p.gone, p.failed into gone, failed
    from windlass.purge_or_set_aside(tenant, array(select j from unnest(locked) j where j <> all (needed || waiting))) p;
  insert into windlass.prune_passed (tenant_id, job_id)
    select tenant, j from unnest(jobs) j where j <> all (locked) or j = any (needed || failed) on conflict do nothing;
end
$$;

-- Deletes jobs that the caller has locked, all together; if that fails, one by one, so that a job that cannot be deleted keeps no other
-- from it. That one is set aside with the reason. A hold that was placed just now and a lock that somebody else has are reasons to leave a
-- job, and no trouble; a lock that was waited for in vain is not waited for again for each job.
create or replace function windlass.purge_or_set_aside(tenant uuid, jobs uuid[], out gone integer, out failed uuid[])
language plpgsql
as $$
#variable_conflict use_column
declare
  began timestamptz := clock_timestamp();
  job uuid;
begin
  failed := '{}';
  begin
    gone := windlass.purge(tenant, jobs, true);
  exception when others then
    perform windlass.raise_server_trouble(sqlstate, sqlerrm);
    gone := 0;
    if sqlstate = '55P03' then
      failed := jobs;
      return;
    end if;
    foreach job in array jobs loop
      begin
        gone := gone + windlass.purge(tenant, array[job], true);
      exception when others then
        if sqlstate not in ('WL020', '55P03', '40P01') then
          perform windlass.note_trouble('prune', tenant, job::text, 'the job cannot be deleted: ' || sqlerrm);
        end if;
        failed := failed || job;
      end;
    end loop;
  end;
  perform windlass.clear_trouble('prune', array_fill(tenant, array[cardinality(jobs)]), jobs, began);
end
$$;
