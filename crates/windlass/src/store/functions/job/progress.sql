-- Whether the job is running this attempt. Volatile, so that it sees what was committed since the calling statement began.
create or replace function windlass.is_running(tenant uuid, job uuid, of_attempt integer) returns boolean
language plpgsql volatile
as $$
#variable_conflict use_column
begin
  return exists (select from windlass.block_of(tenant, job) l where l.attempt = of_attempt);
end
$$;

-- Stores the progress of running jobs. Each write takes effect only with a current fence, and never overwrites that of
-- a later attempt. Returns the number of writes.
-- Lock: the bodies of the jobs. A purge deletes them, so it waits for a report and deletes it too. A body that a purge has
-- locked is skipped and not waited for: its job is about to go. Not the block, because the ends of its other jobs would
-- wait. Instead, a report that has waited for the end of its attempt checks the attempt again.
create or replace function windlass.report_progress(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], percents real[], messages text[]) returns integer
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
  select windlass.raise_array() where not (windlass.is_list(tenants) and windlass.is_list(jobs) and windlass.is_list(attempts)
    and windlass.is_list(tokens) and windlass.is_list(percents) and windlass.is_list(messages));
  select windlass.tenants_for(tenants);
  with held as materialized (
    select i.* from unnest(tenants, jobs, attempts, tokens, percents, messages) i (tenant, job, attempt, token, percent, message)
      cross join lateral (select from windlass.job b where b.tenant_id = i.tenant and b.id = i.job for key share skip locked) b
     where windlass.holds(i.tenant, i.job, i.attempt, i.token)),
  written as (
    insert into windlass.progress as p (tenant_id, job_id, attempt, percent, message, updated_at)
      select i.tenant, i.job, i.attempt, i.percent, i.message, clock_timestamp()
        from held i order by 1, 2
      on conflict (tenant_id, job_id) do update
        set attempt = excluded.attempt, percent = excluded.percent, message = excluded.message, updated_at = excluded.updated_at
        where p.attempt <= excluded.attempt and windlass.is_running(excluded.tenant_id, excluded.job_id, excluded.attempt)
      returning 1)
  select count(*)::integer from written
$$;
