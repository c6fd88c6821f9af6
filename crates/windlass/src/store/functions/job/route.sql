-- The lane of a job of this definition for this tenant, and its initial policies. Checks what a foreign key would: the
-- definition exists and is active, the tenant exists and may enqueue. One lookup by primary key each; the lane is
-- created on its first use, and reactivated if it was retired (see retire_lanes).
-- Lock order, if the lane is created: the tenant's row (see lock_tenant), the gate `lanes`, the lane.
create or replace function windlass.route(
  for_tenant uuid, for_key text, for_queue text, for_priority integer,
  out lane integer, out max_attempts smallint, out start_deadline_seconds integer, out uniqueness jsonb)
language plpgsql
as $$
#variable_conflict use_column
declare
  found_definition record;
  tenant_status text;
  is_retired boolean;
begin
  if for_priority not between 0 and 1000 then
    raise exception 'priority must be between 0 and 1000, not %', for_priority using errcode = 'WL007', column = 'priority';
  end if;
  select d.id, d.is_active, d.max_attempts, d.start_deadline_seconds, d.uniqueness,
         coalesce(for_queue, d.queue) as queue,
         greatest(d.min_priority, least(d.max_priority, coalesce(for_priority, d.priority))) as priority
    into found_definition
    from windlass.job_definitions d where d.key = for_key;
  if not found then
    raise exception 'definition % not found', quote_nullable(for_key) using errcode = 'WL001', detail = coalesce(for_key, '');
  elsif not found_definition.is_active then
    raise exception 'the definition % is not active', quote_literal(for_key) using errcode = 'WL002', detail = for_key;
  end if;
  select t.status into tenant_status from windlass.tenants t where t.id = for_tenant;
  if tenant_status is distinct from 'active' then
    raise exception 'the tenant % is %', for_tenant, coalesce(tenant_status, 'unknown') using errcode = 'WL003', detail = for_tenant::text;
  end if;
  max_attempts := found_definition.max_attempts;
  start_deadline_seconds := found_definition.start_deadline_seconds;
  uniqueness := found_definition.uniqueness;
  select l.id, l.retired_at is not null into lane, is_retired from windlass.lane l
   where l.tenant_id = for_tenant and l.definition_id = found_definition.id
     and l.queue = found_definition.queue and l.priority = found_definition.priority;
  if found and not is_retired then
    return;
  end if;
  if found_definition.queue !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$' then
    raise exception 'queue % is not a valid name: use at most 100 letters, digits and . _ : -', quote_literal(found_definition.queue)
      using errcode = 'WL007', column = 'queue';
  end if;
  perform windlass.lock_tenant(for_tenant);
  if for_queue is not null or for_priority is not null then
    perform windlass.limit_lanes(for_tenant, found_definition.queue, case when for_queue is null then 'priority' else 'queue' end);
  end if;
  -- Two first uses of a lane conflict here, as do a use and a keeper that deletes it: the loser reads the winner's row
  -- with a new snapshot.
  insert into windlass.lane as l (id, tenant_id, definition_id, queue, priority) overriding system value
    values (windlass.next_lane(), for_tenant, found_definition.id, found_definition.queue, found_definition.priority)
    on conflict (tenant_id, definition_id, queue, priority)
      do update set retired_at = null, idle_since = null, barrier = null, made_by = pg_current_xact_id() where l.retired_at is not null
    returning l.id into lane;
  if lane is null then
    select l.id into strict lane from windlass.lane l
     where l.tenant_id = for_tenant and l.definition_id = found_definition.id
       and l.queue = found_definition.queue and l.priority = found_definition.priority;
  end if;
end
$$;

-- Refuses (WL014) a new lane for a queue or priority of the caller's choice if the tenant has reached its limit of
-- lanes or queue names. `field` is the caller's choice. A job that leaves both to its definition is never refused:
-- there are as many such lanes as definitions, and tenants do not create those. Retired lanes do not count, and one
-- that is used again counts as new.
-- Index: lane's primary key, whose first column is the tenant; read only when a lane is created.
-- Lock: from a tenth of the limit on, transactions that create lanes for one tenant wait for each other, so the limit
-- is exceeded at most by what concurrent transactions create below that tenth. Below it a transaction creates three
-- without waiting, which others do not see until it commits: an open transaction must not delay a tenant's first use of
-- another queue. From the fourth on it waits too. A transaction with a fixed snapshot cannot see the current number, so
-- it always waits, and fails (40001) if others have passed since.
create or replace function windlass.limit_lanes(tenant uuid, new_queue text, field text) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  most record;
  has record;
begin
  select t.max_lanes, t.max_queue_names into most from windlass.tenants t where t.id = tenant;
  for look in 1..2 loop
    select count(*) as lanes, count(distinct n.queue) as queues, coalesce(bool_or(n.queue = new_queue), false) as is_known,
           count(*) filter (where n.made_by = pg_current_xact_id()) as mine
      into has from windlass.lane n where n.tenant_id = tenant and n.retired_at is null;
    if has.lanes >= most.max_lanes then
      raise exception 'the tenant uses % combinations of definition, queue and priority; its limit is % (max_lanes)', has.lanes,
        most.max_lanes
        using errcode = 'WL014', column = field, detail = most.max_lanes::text;
    elsif has.queues >= most.max_queue_names and not has.is_known then
      raise exception 'the tenant uses % queue names; its limit is % (max_queue_names)', has.queues, most.max_queue_names
        using errcode = 'WL014', column = field, detail = most.max_queue_names::text;
    end if;
    exit when look = 2 or (has.lanes < most.max_lanes / 10 and has.queues < most.max_queue_names / 10 and has.mine < 3
                           and current_setting('transaction_isolation') = 'read committed');
    perform windlass.take_turn(tenant, 'lanes');
  end loop;
end
$$;
