-- Jobs held elsewhere whose lease has run out: what the reaper decides about. `is_timed_out`: it did not fall silent but
-- used up its time. Sweeps leases whose attempt is over first. Index: remote_lease_by_expiry, so a look that finds
-- nothing costs nothing.
create or replace function windlass.lost_remote_jobs(most integer)
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
begin
  delete from windlass.remote_lease r
   where r.expires_at <= at
     and not exists (select from windlass.live l where l.tenant_id = r.tenant_id and l.job_id = r.job_id and l.attempt = r.attempt and l.token = r.token);
  return query
    with overdue as materialized (
      select r.* from windlass.remote_lease r where r.expires_at <= at order by r.expires_at limit most)
    select l.worker, l.tenant_id, l.job_id, l.attempt, l.token, l.failures, l.lost, l.snoozes, l.max_attempts,
           l.cancel_requested_at is not null, (extract(epoch from b.deadline - at) * 1000)::bigint, d.key, o.times_out_at <= at
      from overdue o
      join windlass.live l on l.tenant_id = o.tenant_id and l.job_id = o.job_id and l.attempt = o.attempt and l.token = o.token
      join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
      join windlass.lane n on n.tenant_id = l.tenant_id and n.id = l.lane
      join windlass.job_definitions d on d.id = n.definition_id;
end
$$;
