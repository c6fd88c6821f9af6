-- Deletes finished jobs of one tenant for retention. Jobs that are kept are written to prune_passed, from where their
-- rule returns to them: jobs that another transaction has locked, that a blocked job waits for, or that could not be
-- deleted, and all of them while a legal hold of the tenant is being placed. Jobs under a hold are only skipped,
-- because its release starts the rule again. handled: the number of jobs that were neither locked nor waited for. gone:
-- the number of deleted jobs. ended_as, ended_before: what the caller has read of the jobs; one that was retried since and
-- has ended again is kept.
drop function if exists windlass.prune_jobs(uuid, uuid[], smallint); -- of earlier builds
create or replace function windlass.prune_jobs(
  tenant uuid, jobs uuid[], ended_as smallint, ended_before timestamptz, out handled integer, out gone integer)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  held uuid[];
  locked uuid[];
  needed uuid[];
  waiting uuid[];
  failed uuid[];
begin
  if not windlass.try_share_gate(tenant, 'hold') then
    insert into windlass.prune_passed (tenant_id, job_id) select tenant, j from unnest(jobs) j on conflict do nothing;
    handled := 0;
    gone := 0;
    return;
  end if;
  held := windlass.held_jobs(tenant, jobs); -- read again: a hold may have been committed since they were found
  jobs := array(select j from unnest(jobs) j where j <> all (held));
  -- An operator may be retrying one of them.
  locked := array(
    select h.job_id from windlass.history h
     where h.tenant_id = tenant and h.job_id = any (jobs) and h.job_status = ended_as and h.finished_at < ended_before
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

-- Deletes jobs that the caller has locked, all together; if that fails, one by one, so that a job that cannot be
-- deleted does not block the others. Such a job is recorded in `problem`. A legal hold that was just placed and a lock
-- of another transaction keep a job, but are not recorded. After one lock timeout, the other jobs are not tried.
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
    gone := windlass.purge_unaudited(tenant, jobs, true);
  exception when others then
    perform windlass.raise_server_problem(sqlstate, sqlerrm);
    gone := 0;
    if sqlstate = '55P03' then
      failed := jobs;
      return;
    end if;
    foreach job in array jobs loop
      begin
        gone := gone + windlass.purge_unaudited(tenant, array[job], true);
      exception when others then
        if sqlstate not in ('WL020', '55P03', '40P01') then
          perform windlass.note_problem('prune', tenant, job::text, 'the job cannot be deleted: ' || sqlerrm);
        end if;
        failed := failed || job;
      end;
    end loop;
  end;
  perform windlass.clear_problem('prune', array_fill(tenant, array[cardinality(jobs)]), jobs, began);
end
$$;
