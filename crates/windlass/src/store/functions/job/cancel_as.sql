-- Cancels a job for a caller, like cancel_unaudited, with a row of the audit trail in the same transaction. A call that
-- changes nothing (requested before, finished, missing) writes no row. The server, the admin and operators name the
-- actor; all others call `cancel`.
create or replace function windlass.cancel_as(
  tenant uuid, job uuid, by_actor text, by_role text, from_address text, request_id text) returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  before jsonb;
  result text;
begin
  perform windlass.tenant_for(tenant);
  before := windlass.recorded_job(tenant, job);
  result := windlass.cancel_unaudited(tenant, job);
  if result = 'requested' then
    before := jsonb_build_object('status', 'running', 'cancel_requested_at', null); -- it may have been claimed during the wait for its lock
  end if;
  if result in ('canceled', 'requested') then
    perform windlass.write_audit(tenant, by_actor, by_role, from_address, request_id, 'job.cancel', job::text, 'done',
      before, windlass.recorded_job(tenant, job));
  end if;
  return windlass.cancel_result(result);
end
$$;

-- The result that the caller gets: a second request has the same result as the first.
create or replace function windlass.cancel_result(result text) returns text
language sql immutable
return case result when 'requested_before' then 'requested' else result end;

-- The same for an operator or an application that uses SQL; the actor is the login.
create or replace function windlass.cancel(tenant uuid, job uuid) returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return windlass.cancel_as(tenant, job, windlass.login_actor(), windlass.caller(), null, null);
end
$$;

-- Cancels many jobs of one tenant and returns the result of each. One row of the audit trail contains the filter and
-- the changed jobs.
-- Lock order: all jobs first (see lock_jobs), with as many waiting jobs as the cancels decide at most.
create or replace function windlass.cancel_many_as(
  tenant uuid, jobs uuid[], filter jsonb, by_actor text, by_role text, from_address text, request_id text)
returns table (id uuid, result text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  changed uuid[] := '{}';
  met integer := 0;
begin
  if not windlass.is_list(jobs) then
    perform windlass.raise_array('jobs');
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.check_many(jobs, filter);
  perform windlass.lock_jobs(tenant, jobs, 100 * cardinality(jobs));
  for id in select distinct u.id from unnest(jobs) u (id) order by u.id loop
    result := windlass.cancel_unaudited(tenant, id);
    met := met + 1;
    if result in ('canceled', 'requested') then
      changed := changed || id;
    end if;
    result := windlass.cancel_result(result);
    return next;
  end loop;
  if changed <> '{}' then
    perform windlass.record_many(tenant, by_actor, by_role, from_address, request_id, 'job.cancel_many', filter, met, changed);
  end if;
end
$$;

-- The same for an operator or an application that uses SQL; the actor is the login. Returns how many were canceled or
-- requested to stop.
create or replace function windlass.cancel_many(tenant uuid, jobs uuid[], filter jsonb) returns bigint
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return (select count(*) filter (where c.result in ('canceled', 'requested'))
    from windlass.cancel_many_as(tenant, jobs, filter, windlass.login_actor(), windlass.caller(), null, null) c);
end
$$;

-- The state of a job that the audit trail records before and after a cancel or retry. Volatile, because it is called
-- again after the change in the same statement.
create or replace function windlass.recorded_job(tenant uuid, job uuid) returns jsonb
language plpgsql
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
  return pg_catalog.jsonb_build_object(
    'status', windlass.state_of(tenant, job),
    'cancel_requested_at', (select r.cancel_requested_at from windlass.running r
      where r.tenant_id operator(pg_catalog.=) tenant and r.job_id operator(pg_catalog.=) job));
end
$$;

-- Limits the size of one call on many jobs and of its row of the audit trail.
create or replace function windlass.check_many(jobs uuid[], filter jsonb) returns void
language plpgsql
as $$
begin
  if pg_catalog.cardinality(jobs) operator(pg_catalog.>) 1000 then
    raise exception 'jobs must have at most 1000 ids' using errcode = 'WL007', column = 'jobs';
  elsif pg_catalog.octet_length(filter::pg_catalog.text) operator(pg_catalog.>) 10000 then
    raise exception 'filter must have at most 10000 bytes' using errcode = 'WL007', column = 'filter';
  end if;
end
$$;

-- Writes the audit row of a call on many jobs.
create or replace function windlass.record_many(
  for_tenant uuid, by_actor text, by_role text, from_address text, request_id text, act text, filter jsonb, met integer,
  changed uuid[]) returns void
language plpgsql
as $$
begin
  perform windlass.write_audit(windlass.tenant_for(for_tenant), by_actor, by_role, from_address, request_id, act,
    met || case met when 1 then ' job' else ' jobs' end, 'done', null,
    pg_catalog.jsonb_build_object('filter', coalesce(filter, '{}'), 'changed', pg_catalog.cardinality(changed), 'ids',
      pg_catalog.to_jsonb(changed)));
end
$$;
