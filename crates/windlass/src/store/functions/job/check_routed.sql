-- Validates the arguments of enqueue_routed, enqueue_routed_many and enqueue_alike; calls tenants_for too. For every
-- caller: arrays of the same length, parts of at most 64 jobs, and no id far in the future. If parts is null, all jobs
-- have the same tenant, lane and number of attempts. Our own processes get a job's lane from route_of and validate its
-- payload, and are trusted with both. An application or an operator may pass anything: a job in another tenant's lane would take that
-- tenant's turn, and a payload of a gigabyte would fail every claim that reads it.
create or replace function windlass.check_routed(
  tenants uuid[], jobs uuid[], lanes integer[], attempts smallint[], parts integer[], payloads json[], extras jsonb[])
returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  n constant integer := cardinality(jobs);
  routes constant integer := case when parts is null then 1 else n end;
  refused integer;
  inactive text;
begin
  if (cardinality(tenants), cardinality(lanes), cardinality(attempts), cardinality(parts), cardinality(payloads), cardinality(extras))
       is distinct from (routes, routes, routes, case when parts is not null then n end, n, case when extras is not null then n end)
      or n > 0 and (array_ndims(tenants), array_ndims(jobs), array_ndims(lanes), array_ndims(attempts), coalesce(array_ndims(parts), 1),
           array_ndims(payloads), coalesce(array_ndims(extras), 1)) <> (1, 1, 1, 1, 1, 1, 1)
      or n > 0 and (array_lower(tenants, 1), array_lower(jobs, 1), array_lower(lanes, 1), array_lower(attempts, 1),
           coalesce(array_lower(parts, 1), 1), array_lower(payloads, 1), coalesce(array_lower(extras, 1), 1)) <> (1, 1, 1, 1, 1, 1, 1) then
    raise exception using message =
        'tenants, jobs, lanes, max_attempts, parts, payloads and extras must be lists of the same length, with the lower bound 1',
      errcode = 'WL007', column = 'jobs';
  end if;
  if not (windlass.is_full(tenants, routes) and windlass.is_full(jobs, n) and windlass.is_full(lanes, routes)
      and windlass.is_full(attempts, routes)) or exists (select from unnest(payloads) p (payload) where p.payload is null) then
    perform windlass.raise_list(case when not windlass.is_full(tenants, routes) then 'tenant' when not windlass.is_full(jobs, n) then 'job'
      when not windlass.is_full(lanes, routes) then 'lane' when not windlass.is_full(attempts, routes) then 'max_attempts'
      else 'payload' end);
  end if;
  if exists (select from unnest(parts) p group by p having p is null or p not between 1 and n or count(*) > 64) then
    raise exception 'a part must have a number from 1 to the number of jobs, and at most 64 jobs' using errcode = 'WL007', column = 'parts';
  end if;
  perform windlass.check_ids(jobs);
  perform windlass.tenants_for(tenants);
  if windlass.routes_jobs() then
    perform windlass.check_own_session();
    return;
  end if;
  select n.lane into refused from unnest(tenants, lanes) n (tenant, lane)
   where not exists (select from windlass.lane l where l.id = n.lane and l.tenant_id = n.tenant) limit 1;
  if found then
    raise exception 'lane % does not belong to the tenant', refused using errcode = 'WL007', column = 'lane';
  end if;
  select min(d.key) into inactive from windlass.lane l join windlass.job_definitions d on d.id = l.definition_id
   where l.id = any (lanes) and not d.is_active;
  if inactive is not null then
    raise exception 'the definition % is not active', quote_literal(inactive) using errcode = 'WL002', detail = inactive;
  end if;
  perform windlass.use_lane_again(r.tenant_id, r.id, r.queue) -- takes locks, so in one order
    from (select l.tenant_id, l.id, l.queue from windlass.lane l where l.id = any (lanes) and l.retired_at is not null
           order by l.tenant_id, l.id) r;
  select n.most into refused from unnest(attempts) n (most) where n.most is null or n.most not between 1 and 1000 limit 1;
  if found then
    raise exception 'max_attempts must be between 1 and 1000, not %', refused using errcode = 'WL007', column = 'max_attempts';
  end if;
  select octet_length(n.payload::text) into refused from unnest(payloads) n (payload) where octet_length(n.payload::text) > 1048576 limit 1;
  if found then
    raise exception 'payload has % bytes of JSON; at most 1048576 are allowed', refused using errcode = 'WL005', column = 'payload';
  end if;
  perform windlass.check_json('payload', n.payload::jsonb) from unnest(payloads) n (payload);
  perform windlass.check_options('{}', coalesce(x.source, 'manual'), null, null, null, x.tags,
      array[null, null, null, x.subject_type, x.subject_id, x.correlation_id, x.source_ref, x.trace])
    from unnest(extras) n (extra)
    cross join lateral jsonb_to_record(n.extra) x (source text, source_ref text, correlation_id text, subject_type text, subject_id text,
      trace text, tags text[])
   where n.extra is not null;
  perform windlass.check_tenants_active(array(select distinct t from unnest(tenants) t)); -- the lane may be older than a suspension
end
$$;

-- Refuses ids that are too far in the future. An application may choose the ids of its jobs. A UUIDv7 contains its
-- creation time, and jobs are partitioned by the time of their id. An id of more than a day ahead is refused (clocks
-- differ by less), because it would be in the default partition. Any past id is accepted: no partition of the past is
-- created any more, and jobs from an outbox or another queue have old ids. Ids of other versions contain no time; one in
-- the range of a future day is moved when the partition of that day is created (see partition_rows.sql).
-- The nil and the max UUID are refused: lists start and end with them, so no list would show such a job.
create or replace function windlass.check_ids(jobs uuid[]) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  bound constant uuid := windlass.uuid7_floor(clock_timestamp() + interval '24 hours');
  refused uuid;
begin
  select j into refused from unnest(jobs) j where j >= bound and get_byte(uuid_send(j), 6) >> 4 = 7 limit 1;
  if found then
    raise exception 'job_id % is a UUIDv7 more than a day in the future', refused
      using errcode = 'WL007', column = 'job_id';
  end if;
  select j into refused from unnest(jobs) j
   where j in ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff') limit 1;
  if found then
    raise exception 'job_id must not be the nil or the max UUID' using errcode = 'WL007', column = 'job_id';
  end if;
end
$$;
