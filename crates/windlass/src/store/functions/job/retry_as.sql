-- Runs a finished job again for a caller, as retry_unaudited does, with a row of the audit trail in the same transaction.
-- What changed nothing leaves no row.
create or replace function windlass.retry_as(
  tenant uuid, job uuid, by_actor text, by_role text, from_address text, request_id text, out answer text, out holder uuid)
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
  select r.answer, r.holder, r.was into done from windlass.retry_unaudited(tenant, job) r;
  answer := done.answer;
  holder := done.holder;
  if done.was is not null then
    perform windlass.record_audit(tenant, by_actor, by_role, from_address, request_id, 'job.retry', job::text, 'done',
      before, windlass.recorded_job(tenant, job));
  end if;
end
$$;

-- The same for an operator or an application with SQL. `actor` is what the caller says, without it the login; the role is the
-- database's word for who called.
create or replace function windlass.retry(tenant uuid, job uuid, actor text, out answer text, out holder uuid)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if octet_length(actor) > 500 then
    raise exception 'actor must have at most 500 bytes' using errcode = 'WL007', column = 'actor';
  end if;
  select r.answer, r.holder into answer, holder
    from windlass.retry_as(tenant, job, coalesce(actor, windlass.login_actor()), windlass.caller(), null, null) r;
end
$$;

-- Runs many finished jobs of one tenant again, in the order of their ids, and says of each what came of it. One row of the
-- audit trail has the filter and the jobs that were changed.
create or replace function windlass.retry_many_as(
  tenant uuid, jobs uuid[], filter jsonb, by_actor text, by_role text, from_address text, request_id text)
returns table (id uuid, answer text)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  changed uuid[] := '{}';
  met integer := 0;
begin
  perform windlass.tenant_for(tenant);
  perform windlass.refuse_many(jobs, filter);
  for id in select distinct u.id from unnest(jobs) u (id) order by u.id loop
    select r.answer into answer from windlass.retry_unaudited(tenant, id) r;
    met := met + 1;
    if answer in ('queued', 'blocked') then
      changed := changed || id;
    end if;
    return next;
  end loop;
  perform windlass.record_many(tenant, by_actor, by_role, from_address, request_id, 'job.retry_many', filter, met, changed);
end
$$;

-- The same for an operator or an application with SQL. Answers how many were taken back; those that have not ended, or whose
-- dedupe slot another job holds, are left as they are.
create or replace function windlass.retry_many(tenant uuid, jobs uuid[], filter jsonb, actor text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
begin
  if octet_length(actor) > 500 then
    raise exception 'actor must have at most 500 bytes' using errcode = 'WL007', column = 'actor';
  end if;
  return (select count(*) filter (where r.answer in ('queued', 'blocked'))
    from windlass.retry_many_as(tenant, jobs, filter, coalesce(actor, windlass.login_actor()), windlass.caller(), null, null) r);
end
$$;
