-- How a SQL worker ends the attempt of a job that it took: finish, fail, snooze and release. Each returns the job's status after it. A
-- stale token is refused (WL019), and a job that an open transaction has locked too (WL016): nothing was changed. Called in the
-- transaction of the work itself, both are committed or neither.
-- Lock order: as in pull_settle.

-- next: jobs to enqueue together with the success, as objects with the named arguments of enqueue.
create or replace function windlass.finish(
  job uuid, token uuid, result jsonb default null, artifact jsonb default null, next jsonb default null, tenant_id uuid default null)
returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.check_json(f.name, f.value) from (values ('result', $3), ('artifact', $4)) f (name, value) where f.value is not null;
  perform windlass.check_next($5);
  return windlass.end_taken($6, $1, $2, 'succeeded', null, null,
    case when coalesce($5, '[]') = '[]' then '{}' else jsonb_build_object('chain', $5) end
    || case when $3 is null then '{}' else jsonb_build_object('result', $3) end
    || case when $4 is null then '{}' else jsonb_build_object('artifact', $4) end);
end
$$;

-- retryable: false fails the job permanently. retry_after: instead of the definition's backoff.
create or replace function windlass.fail(
  job uuid, token uuid, error text, retryable boolean default true, retry_after interval default null, tenant_id uuid default null)
returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return windlass.end_taken($6, $1, $2, 'failed',
    case when $4 is false then 'permanent' when $5 is null then 'policy' else 'after' end, $5,
    jsonb_build_object('error', windlass.storable(coalesce(nullif($3, ''), 'the worker gave no error'), 8192)));
end
$$;

create or replace function windlass.snooze(job uuid, token uuid, delay interval, tenant_id uuid default null) returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if $3 is null then
    raise exception 'delay must be an interval such as "5 minutes"' using errcode = 'WL007', column = 'delay';
  end if;
  return windlass.end_taken($4, $1, $2, 'snoozed', null, $3, '{}');
end
$$;

create or replace function windlass.release(job uuid, token uuid, tenant_id uuid default null) returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return windlass.end_taken($3, $1, $2, 'released', null, null, jsonb_build_object('error', 'released by its worker'));
end
$$;

-- Decides what follows by the policies of the definition, and writes it if the token is still current. texts: what is stored with the
-- attempt, as in the details of settle_blocks.
create or replace function windlass.end_taken(
  of_tenant uuid, job uuid, with_token uuid, ended text, again text, delay interval, texts jsonb) returns text
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  own_tenant uuid;
  held record;
  detail jsonb;
  done text;
begin
  own_tenant := windlass.tenant_for(of_tenant);
  select r.attempt, l.failures, l.lost, l.snoozes, l.max_attempts, l.cancel_requested_at[1] is not null as is_canceled,
         windlass.milliseconds_until(b.deadline, clock_timestamp()) as remaining_ms,
         d.max_lost, d.max_snoozes, d.backoff, d.on_timeout, d.on_lost
    into held
    from windlass.pull_lease r
    join windlass.live l on l.tenant_id = r.tenant_id and l.job_id = r.job_id and l.attempt = r.attempt and l.token = r.token
    join windlass.lane n on n.tenant_id = l.tenant_id and n.id = l.lane
    join windlass.job_definitions d on d.id = n.definition_id
    left join windlass.job b on b.tenant_id = l.tenant_id and b.id = l.job_id
   where r.tenant_id = own_tenant and r.job_id = end_taken.job and r.token = with_token;
  if not found then
    if windlass.has_newer_lease(own_tenant, end_taken.job) then
      perform windlass.check_read_committed();
    end if;
    perform windlass.raise_lease_lost(end_taken.job);
  end if;
  detail := windlass.settlement(ended, again, (extract(epoch from delay) * 1000)::numeric, held.failures, held.lost, held.snoozes,
    held.max_attempts, held.max_lost, held.max_snoozes, held.backoff, held.on_timeout, held.on_lost, held.is_canceled,
    held.remaining_ms, random()) || texts;
  done := windlass.pull_settle(own_tenant, end_taken.job, held.attempt, with_token, detail);
  if done = 'lost' then
    perform windlass.raise_lease_lost(end_taken.job);
  end if;
  return case done when 'overruled' then 'canceled' else windlass.state_name((detail -> 'next')::smallint) end;
exception when lock_not_available then
  perform windlass.raise_locked(format('job %s', end_taken.job));
end
$$;

-- Whether the job was taken since the snapshot of this transaction, which therefore does not contain its lease. An insert conflicts with
-- rows that the snapshot does not contain, and fails (40001); if it conflicts with none, it is undone.
create or replace function windlass.has_newer_lease(tenant uuid, job uuid) returns boolean
language plpgsql
set lock_timeout = '200ms'
as $$
begin
  if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') or job is null then
    return false;
  end if;
  perform from windlass.pull_lease r where r.tenant_id = tenant and r.job_id = job for key share;
  if not found then
    insert into windlass.pull_lease (tenant_id, job_id, attempt, token, worker, lease_seconds, expires_at, times_out_at)
      values (tenant, job, 0, '00000000-0000-0000-0000-000000000000', 0, 1, now(), now()) on conflict do nothing;
    raise no_data_found;
  end if;
  return false;
exception
  when no_data_found or lock_not_available then -- a take that has not committed gave the caller no token
    return false;
  when serialization_failure then
    return true;
end
$$;

-- Refuses (WL007) next jobs that enqueue_chain could not read.
create or replace function windlass.check_next(next jsonb) returns void
language plpgsql stable
as $$
declare
  one record;
  unknown text;
begin
  if jsonb_typeof(next) <> 'array' then
    raise exception 'next must be an array of jobs' using errcode = 'WL007', column = 'next';
  end if;
  for one in select e.fields, e.ord - 1 as place from jsonb_array_elements(next) with ordinality e (fields, ord) loop
    if jsonb_typeof(one.fields) <> 'object' or jsonb_typeof(one.fields -> 'definition_key') is distinct from 'string' then
      raise exception 'next[%] must be an object with a definition_key', one.place using errcode = 'WL007', column = 'next';
    end if;
    select k into unknown from jsonb_object_keys(one.fields) k
     where k <> all (array['definition_key', 'payload', 'queue', 'priority', 'scheduled_for', 'delay', 'dedupe_key', 'uniqueness',
       'idempotency_key', 'ordering_key', 'depends_on', 'if_unmet', 'subject_type', 'subject_id', 'tags', 'correlation_id', 'source',
       'source_ref', 'max_attempts', 'deadline', 'created_by', 'trace', 'job_id']) limit 1;
    if found then
      raise exception 'next[%] has an unknown field %', one.place, quote_literal(unknown) using errcode = 'WL007', column = 'next';
    end if;
    perform windlass.check_fields(format('next[%s]', one.place), one.fields - 'payload');
  end loop;
end
$$;
