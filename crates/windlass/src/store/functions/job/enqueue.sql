-- Enqueues one job in the caller's own transaction, for any language and for row triggers. Rust callers validate and
-- route first and then call enqueue_routed, which does the same with fewer lookups.
create or replace function windlass.enqueue(
  definition_key text,
  payload jsonb default '{}',
  tenant_id uuid default null,
  queue text default null,
  priority integer default null,
  scheduled_for timestamptz default null,
  delay interval default null,
  dedupe_key text default null,
  uniqueness jsonb default null,
  idempotency_key text default null,
  ordering_key text default null,
  depends_on uuid[] default null,
  if_unmet text default null,
  subject_type text default null,
  subject_id text default null,
  tags text[] default null,
  correlation_id text default null,
  source text default 'manual',
  source_ref text default null,
  max_attempts integer default null,
  deadline timestamptz default null,
  parent_id uuid default null,
  created_by uuid default null,
  trace text default null,
  job_id uuid default null,
  out id uuid, out status text, out is_duplicate boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  tenant uuid := windlass.tenant_for(enqueue.tenant_id);
  at timestamptz := clock_timestamp();
  starts_at timestamptz;
  route record;
  attempts smallint;
  line_seq bigint;
  request bytea;
  is_taken boolean := false;
begin
  if not (windlass.is_list(enqueue.depends_on) and windlass.is_list(enqueue.tags)) then
    perform windlass.raise_array(case when windlass.is_list(enqueue.tags) then 'depends_on' else 'tags' end);
  end if;
  perform windlass.check_options(enqueue.payload, enqueue.source, enqueue.max_attempts, enqueue.if_unmet,
    enqueue.uniqueness, enqueue.tags,
    array[enqueue.dedupe_key, enqueue.idempotency_key, enqueue.ordering_key, enqueue.subject_type, enqueue.subject_id,
          enqueue.correlation_id, enqueue.source_ref, enqueue.trace]);
  if cardinality(enqueue.depends_on) > 100 then
    raise exception 'depends_on has % jobs; at most 100 are allowed', cardinality(enqueue.depends_on)
      using errcode = 'WL007', column = 'depends_on';
  end if;
  perform windlass.check_instant('scheduled_for', enqueue.scheduled_for);
  perform windlass.check_instant('deadline', enqueue.deadline);
  if enqueue.job_id is not null then
    perform windlass.check_ids(array[enqueue.job_id]);
    is_taken := windlass.has_job(tenant, enqueue.job_id);
  end if;
  if enqueue.delay not between interval '-3650 days' and interval '3650 days' then
    raise exception 'delay must be at most 3650 days' using errcode = 'WL007', column = 'delay';
  end if;
  -- In seconds: a day of an interval has 23 to 25 hours in the time zone of a session.
  starts_at := coalesce(at + make_interval(secs => extract(epoch from enqueue.delay)), enqueue.scheduled_for);
  perform windlass.stay_durable();
  perform windlass.lock_quota(tenant);
  select * into route from windlass.route(tenant, enqueue.definition_key, enqueue.queue, enqueue.priority);
  attempts := coalesce(enqueue.max_attempts, route.max_attempts);
  -- With the id of an existing job, only a repetition under one of its keys is accepted; the other id is never stored.
  id := case when is_taken then windlass.uuid7() else coalesce(enqueue.job_id, windlass.uuid7()) end;
  if starts_at <= at then
    starts_at := null;
  end if;
  if enqueue.idempotency_key is not null then
    -- All parameters of the request, except those that differ between two sends of the same request: the sender,
    -- parent, trace and correlation. Instants and intervals as numbers, because their text form depends on the
    -- session's settings.
    request := sha256(convert_to(jsonb_build_array(enqueue.definition_key, enqueue.payload, enqueue.queue, enqueue.priority,
      extract(epoch from enqueue.scheduled_for), extract(epoch from enqueue.delay), enqueue.dedupe_key, enqueue.uniqueness,
      enqueue.ordering_key, nullif(enqueue.depends_on, '{}'), enqueue.if_unmet, enqueue.subject_type, enqueue.subject_id,
      nullif(enqueue.tags, '{}'), enqueue.max_attempts, extract(epoch from enqueue.deadline))::text, 'UTF8'));
  end if;

  select g.id, g.status, g.is_duplicate, g.line_seq into id, status, is_duplicate, line_seq
    from windlass.enqueue_guarded(tenant, id, at, route.lane, attempts,
      coalesce(enqueue.uniqueness, route.uniqueness), route.start_deadline_seconds,
      starts_at, enqueue.deadline,
      enqueue.dedupe_key, enqueue.idempotency_key, request, enqueue.ordering_key, enqueue.depends_on, enqueue.if_unmet) g;
  if is_duplicate then
    return;
  elsif is_taken then
    perform windlass.raise_taken_id(enqueue.job_id);
  end if;
  -- Jobs that other jobs enqueue count too; otherwise a parent would bypass the quota. A parent that completes no
  -- longer counts at this point, so a chain of one job after another always fits.
  perform windlass.limit_to_quota(tenant, 1);

  insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload, scheduled_for, deadline,
      start_by, created_by, parent_id, source_ref, dedupe_key, ordering_key, correlation_id, subject_type, subject_id, trace, tags)
    values (tenant, id, at, route.lane, windlass.source_code(enqueue.source), attempts, line_seq, enqueue.payload, starts_at,
      enqueue.deadline, coalesce(starts_at, at) + make_interval(secs => route.start_deadline_seconds), enqueue.created_by,
        enqueue.parent_id, enqueue.source_ref, enqueue.dedupe_key, enqueue.ordering_key,
      enqueue.correlation_id, enqueue.subject_type, enqueue.subject_id, enqueue.trace, enqueue.tags)
    on conflict do nothing;
  if not found then
    perform windlass.raise_taken_id(id); -- enqueued meanwhile
  end if;
  if enqueue.job_id is not null and exists (select from windlass.dependency d where d.tenant_id = tenant
    and d.needs_job_id = enqueue.job_id) then
    -- The id of a deleted job: jobs that wait for it would wait for this one, which may wait for them.
    raise exception 'job_id is the id of a deleted job that other jobs wait for' using errcode = 'WL007', column = 'job_id';
  end if;
  perform windlass.check_tenants_active(array[tenant]);
  if status = 'queued' then
    perform windlass.notify_lane(route.lane);
  elsif status = 'blocked' then
    -- The jobs that it waits for may have ended before the dependency was written.
    perform windlass.unblock(tenant, array(select d.needs_job_id from windlass.dependency d
                                            where d.tenant_id = tenant and d.job_id = enqueue.id), array[id]);
    status := windlass.state_of(tenant, id);
  end if;
end
$$;
