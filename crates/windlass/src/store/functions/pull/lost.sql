-- Jobs of pull workers whose lease has expired, for the reaper. `is_timed_out`: the attempt exceeded its timeout and
-- did not miss a heartbeat. Tenants take turns. Rows that another transaction has locked are skipped, so that they
-- never fill a round; for the same reason all jobs of a tenant are skipped for two seconds if its open transactions block
-- several. Deletes leases of ended attempts first.
-- Index: pull_lease_by_expiry, so a call that finds nothing is cheap.
create or replace function windlass.pull_lost_jobs(most integer default 500)
returns table (worker integer, tenant_id uuid, job_id uuid, attempt integer, token uuid, failures smallint, lost smallint,
  snoozes smallint, max_attempts smallint, cancel_requested boolean, deadline_ms bigint, definition_key text, is_timed_out boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  has_problem boolean := exists (select from windlass.problem t where t.duty = 'reap');
begin
  delete from windlass.pull_lease r
   where r.expires_at <= at
     and not exists (select from windlass.live l where l.tenant_id = r.tenant_id and l.job_id = r.job_id and l.attempt = r.attempt
       and l.token = r.token);
  return query
    with lost as materialized (
      select r.*, row_number() over (partition by r.tenant_id order by r.expires_at) as turn from windlass.pull_lease r
       where r.expires_at <= at and not (has_problem and (windlass.is_set_aside('reap', r.tenant_id, r.job_id::text)
                                                          or windlass.is_set_aside('reap', r.tenant_id, r.tenant_id::text)))),
    overdue as materialized (
      select r.* from lost r
        join windlass.live l on l.tenant_id = r.tenant_id and l.job_id = r.job_id and l.attempt = r.attempt and l.token = r.token
       order by r.turn, r.expires_at limit most for update of l skip locked)
    select l.worker, l.tenant_id, l.job_id, l.attempt, l.token, l.failures, l.lost, l.snoozes, l.max_attempts,
           l.cancel_requested_at[1] is not null, windlass.milliseconds_until(b.deadline, at), coalesce(d.key, ''), o.times_out_at <= at
      from overdue o
      join windlass.live l on l.tenant_id = o.tenant_id and l.job_id = o.job_id and l.attempt = o.attempt and l.token = o.token
      left join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
      left join windlass.lane n on n.tenant_id = l.tenant_id and n.id = l.lane
      left join windlass.job_definitions d on d.id = n.definition_id;
end
$$;
