-- Stores the progress of running jobs. Each write takes effect only with a current fence, and never overwrites that of
-- a later attempt. Returns the number of writes.
create or replace function windlass.report_progress(
  tenants uuid[], jobs uuid[], attempts integer[], tokens uuid[], percents real[], messages text[]) returns integer
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.refuse_array() where not (windlass.is_list(tenants) and windlass.is_list(jobs) and windlass.is_list(attempts)
    and windlass.is_list(tokens) and windlass.is_list(percents) and windlass.is_list(messages));
  select windlass.tenants_for(tenants);
  with told as (
    insert into windlass.progress as p (tenant_id, job_id, attempt, percent, message, updated_at)
      select i.tenant, i.job, i.attempt, i.percent, i.message, clock_timestamp()
        from unnest(tenants, jobs, attempts, tokens, percents, messages) i (tenant, job, attempt, token, percent, message)
       where windlass.holds(i.tenant, i.job, i.attempt, i.token)
       order by 1, 2
      on conflict (tenant_id, job_id) do update
        set attempt = excluded.attempt, percent = excluded.percent, message = excluded.message, updated_at = excluded.updated_at
        where p.attempt <= excluded.attempt
      returning 1)
  select count(*)::integer from told
$$;
