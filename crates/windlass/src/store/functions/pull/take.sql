-- The claim of a SQL worker: up to `most` jobs of one tenant, of these definitions and in these queues (null: all), each with a token
-- of its own and a lease that ends by itself. The jobs are those of pull workers, with the same leases, limits and ends; the caller is a
-- pull worker named NAME@TENANT (by default its login), and extend, finish, fail, snooze and release end what it took.
--
-- Lanes are read in the order of their priority, those with the same one in random order. One call in ten ignores priorities, so
-- that a lane is not starved by others; the fairness between tenants is not needed, because a call takes jobs of one tenant.
-- Lock order: the worker's row, then as in pull_claim, which would return nothing to a worker whose row another call has locked. A call
-- that finds no work locks nothing, and writes the row every half minute. So call it in a transaction of its own.
-- Index: lane's primary key (tenant_id first); line's primary key, once for each lane.
create or replace function windlass.take(
  keys text[] default null, most integer default 1, lease interval default '30 s', queues text[] default null,
  tenant_id uuid default null, worker_id text default null)
returns table (id uuid, definition_key text, queue text, payload jsonb, attempt integer, max_attempts smallint, failures smallint,
  token uuid, lease_expires_at timestamptz, deadline timestamptz, subject_type text, subject_id text, correlation_id text,
  source_ref text, trace text, tags text[], parent_id uuid)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  own_tenant uuid;
  own_name text;
  own integer;
  is_turn constant boolean := random() < 0.1;
  seconds integer;
  capacity integer := take.most;
  lanes integer[];
  of_lane record;
  began constant timestamptz := clock_timestamp();
  tokens uuid[];
  got record;
begin
  perform windlass.check_read_committed();
  if not (windlass.is_list(take.keys) and windlass.is_list(take.queues)) then
    perform windlass.raise_array(case when windlass.is_list(take.keys) then 'queues' else 'keys' end);
  elsif coalesce(take.keys, '{}') = '{}' and coalesce(take.queues, '{}') = '{}' then
    raise exception 'keys is required, or queues' using errcode = 'WL007', column = 'keys';
  elsif cardinality(take.keys) > 1000 or cardinality(take.queues) > 1000 then
    raise exception 'keys and queues have at most 1000 names each' using errcode = 'WL007', column = 'keys';
  elsif coalesce(take.most not between 1 and 100, true) then
    perform windlass.raise_span('most', 1, 100);
  end if;
  seconds := windlass.lease_seconds(take.lease);
  own_tenant := windlass.tenant_for(take.tenant_id);
  own_name := windlass.sql_worker(take.worker_id, own_tenant);
  select w.id into own from windlass.job_workers w
   where w.worker_id = own_name and w.stopped_at is null and w.lease_expires_at > clock_timestamp() + interval '30 s'
     and w.definition_keys = coalesce(take.keys, '{}') and w.queues = coalesce(take.queues, '{}');
  if not found then
    select r.id into own from windlass.pull_register(own_name, coalesce(host(inet_client_addr()), ''), '', coalesce(take.queues, '{}'),
      coalesce(take.keys, '{}'), 60, '{}') r;
  end if;
  if windlass.lanes_to_take(own, own_tenant, take.keys, take.queues, is_turn) = '{}' then
    return;
  end if;
  perform from windlass.job_workers w where w.id = own for no key update;
  -- Again, because the tenant, a queue or the worker may have been stopped while this call waited for the row.
  lanes := windlass.lanes_to_take(own, own_tenant, take.keys, take.queues, is_turn);
  for of_lane in
    select n.id, n.queue, d.key from unnest(lanes) with ordinality u (lane, ord)
      join windlass.lane n on n.id = u.lane join windlass.job_definitions d on d.id = n.definition_id order by u.ord
  loop
    tokens := array(select gen_random_uuid() from generate_series(1, capacity));
    for got in
      select c.* from windlass.pull_claim(own, gen_random_uuid(), array[of_lane.id], array[0::bigint], array[capacity],
        array_fill(own, array[capacity]), array_fill(seconds, array[capacity]), tokens, 60) c
    loop
      id := got.job_id; definition_key := of_lane.key; queue := of_lane.queue; payload := windlass.readable(got.payload);
      attempt := got.attempt; max_attempts := got.max_attempts; failures := got.failures; token := tokens[got.slot];
      lease_expires_at := got.lease_expires_at; deadline := got.times_out_at;
      subject_type := got.extra ->> 'subject_type'; subject_id := got.extra ->> 'subject_id';
      correlation_id := got.extra ->> 'correlation_id'; source_ref := got.extra ->> 'source_ref'; trace := got.extra ->> 'trace';
      tags := array(select jsonb_array_elements_text(nullif(got.extra -> 'tags', 'null')));
      parent_id := (got.extra ->> 'parent_id')::uuid;
      capacity := capacity - 1;
      return next;
    end loop;
    -- Each claim may wait a tenth of a second for a running limit that another transaction holds.
    exit when capacity = 0 or clock_timestamp() > began + interval '500 ms';
  end loop;
exception when lock_not_available then
  perform windlass.raise_locked('the worker ' || own_name);
end
$$;

-- The lanes with queued jobs that a SQL worker may take now, in the order in which they are read. Volatile, so that it sees what was
-- committed since the calling statement began.
create or replace function windlass.lanes_to_take(own integer, own_tenant uuid, keys text[], queues text[], is_turn boolean)
returns integer[]
language plpgsql
as $$
#variable_conflict use_column
begin
  if windlass.is_draining(own) then
    return '{}';
  end if;
  return array(
    select n.id from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id
     where n.tenant_id = own_tenant
       and (coalesce(keys, '{}') = '{}' or d.key = any (keys))
       and (coalesce(queues, '{}') = '{}' or n.queue = any (queues))
       and exists (select from windlass.line l where l.lane = n.id)
       and not exists (select from windlass.queues q where q.name = n.queue and q.is_paused)
       and exists (select from windlass.tenants t where t.id = own_tenant and t.status = 'active')
     order by case when not is_turn then n.priority end, random());
end
$$;

-- The length of a lease in seconds; null for the default. Refuses (WL007) any other than one from a second to a day.
create or replace function windlass.lease_seconds(lease interval) returns integer
language plpgsql stable
as $$
begin
  if lease not between interval '1 s' and interval '1 day' then
    raise exception 'lease must be between 1 second and 1 day' using errcode = 'WL007', column = 'lease';
  end if;
  return coalesce(extract(epoch from lease), 30)::integer;
end
$$;

-- The name of a SQL worker's row. It contains the tenant, so that no tenant can use another's row.
create or replace function windlass.sql_worker(worker_id text, tenant uuid) returns text
language plpgsql stable
as $$
begin
  if worker_id !~ '^[A-Za-z0-9._:-]{1,200}$' then
    raise exception 'worker_id must have 1 to 200 letters, digits or . _ : -' using errcode = 'WL007', column = 'worker_id';
  end if;
  perform windlass.check_own_session();
  return coalesce(worker_id, regexp_replace(session_user, '[^A-Za-z0-9._:-]', '_', 'g')) || '@' || tenant;
end
$$;
