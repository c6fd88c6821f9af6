-- Runs a finished job again for a caller, like retry_unaudited, with a row of the audit trail in the same transaction.
-- A call that changes nothing writes no row.
create or replace function windlass.retry_as(
  tenant uuid, job uuid, by_actor text, by_role text, from_address text, request_id text, out result text, out holder uuid)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  before jsonb;
  done record;
begin
  perform windlass.tenant_for(tenant);
  before := windlass.recorded_job(tenant, job);
  select r.result, r.holder, r.was into done from windlass.retry_unaudited(tenant, job) r;
  result := done.result;
  holder := done.holder;
  if done.was is not null then
    before := before || jsonb_build_object('status', done.was, 'cancel_requested_at', null); -- under the locks of the retry
    perform windlass.write_audit(tenant, by_actor, by_role, from_address, request_id, 'job.retry', job::text, 'done',
      before, windlass.recorded_job(tenant, job));
  end if;
end
$$;

-- The same for an operator or an application that uses SQL. The actor is the login, followed by the name that the caller
-- gives (see actor_for); the role is the caller's database role.
create or replace function windlass.retry(tenant uuid, job uuid, actor text, out result text, out holder uuid)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if octet_length(actor) > 500 then
    raise exception 'actor must have at most 500 bytes' using errcode = 'WL007', column = 'actor';
  end if;
  select r.result, r.holder into result, holder
    from windlass.retry_as(tenant, job, coalesce(actor, windlass.login_actor()), windlass.caller(), null, null) r;
end
$$;

-- Runs many finished jobs of one tenant again, in the order of their ids, and returns the result of each. One row of
-- the audit trail contains the filter and the changed jobs.
-- Lock order: the rows and keys of all jobs that have ended first (see lock_to_retry). A job that ends later is not
-- retried: its locks would be out of order.
create or replace function windlass.retry_many_as(
  tenant uuid, jobs uuid[], filter jsonb, by_actor text, by_role text, from_address text, request_id text)
returns table (id uuid, result text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
declare
  changed uuid[] := '{}';
  met integer := 0;
  its record;
begin
  if not windlass.is_list(jobs) then
    perform windlass.raise_array('jobs');
  end if;
  perform windlass.tenant_for(tenant);
  perform windlass.check_many(jobs, filter);
  select l.ended, l.dedupe_keys, l.ordering_keys into its from windlass.lock_to_retry(tenant, jobs) l;
  for id in select distinct u.id from unnest(jobs) u (id) order by u.id loop
    if id = any (its.ended) then
      select r.result into result from windlass.retry_unaudited(tenant, id) r;
    else
      result := case when exists (select from windlass.job b where b.tenant_id = tenant and b.id = retry_many_as.id) then 'not_finished'
        else 'missing' end;
    end if;
    met := met + 1;
    if result in ('queued', 'blocked', 'canceled') then
      changed := changed || id;
    end if;
    return next;
  end loop;
  perform windlass.unlock_keys(tenant, null, its.dedupe_keys, its.ordering_keys);
  if changed <> '{}' then
    perform windlass.record_many(tenant, by_actor, by_role, from_address, request_id, 'job.retry_many', filter, met, changed);
  end if;
end
$$;

-- The same for an operator or an application that uses SQL. Returns how many were changed. Jobs that have not
-- ended, whose deadline has passed, or whose dedupe key another job holds, are unchanged.
create or replace function windlass.retry_many(tenant uuid, jobs uuid[], filter jsonb, actor text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if octet_length(actor) > 500 then
    raise exception 'actor must have at most 500 bytes' using errcode = 'WL007', column = 'actor';
  end if;
  return (select count(*) filter (where r.result in ('queued', 'blocked', 'canceled'))
    from windlass.retry_many_as(tenant, jobs, filter, coalesce(actor, windlass.login_actor()), windlass.caller(), null, null) r);
end
$$;
