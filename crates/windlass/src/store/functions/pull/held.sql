-- The data of a job that the decision about its attempt needs, if the fence is current. It does not change meanwhile,
-- except for a cancel request, which settle checks again.
create or replace function windlass.pull_held(tenant uuid, job uuid, with_attempt integer, with_token uuid)
returns table (definition_key text, failures smallint, lost smallint, snoozes smallint, max_attempts smallint,
  cancel_requested boolean, deadline_ms bigint, ran_ms bigint, payload json)
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
  select windlass.tenant_for(tenant); -- even if no such job runs
  select d.key, l.failures, l.lost, l.snoozes, l.max_attempts, l.cancel_requested_at is not null,
         windlass.milliseconds_until(b.deadline, clock_timestamp()),
         (extract(epoch from clock_timestamp() - l.claimed_at) * 1000)::bigint, b.payload
    from windlass.running l
    join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
    join windlass.lane n on n.tenant_id = l.tenant_id and n.id = l.lane
    join windlass.job_definitions d on d.id = n.definition_id
   where l.tenant_id = tenant and l.job_id = job
     and windlass.holds(tenant, job, with_attempt, with_token)
$$;
