-- Where a job of this definition is queued for this tenant, and the policies it starts with.
-- Checks what a foreign key would: the definition exists and is active, the tenant exists and may enqueue.
-- One lookup by primary key each; the lane is made on its first use, and used again if it was retired (see retire_lanes).
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
  select d.id, d.is_active, d.max_attempts, d.start_deadline_seconds, d.uniqueness,
         coalesce(for_queue, d.queue) as queue,
         greatest(d.min_priority, least(d.max_priority, coalesce(for_priority, d.priority))) as priority
    into found_definition
    from windlass.job_definitions d where d.key = for_key;
  if not found then
    raise exception 'there is no definition with key %', quote_literal(for_key) using errcode = 'WL001', detail = for_key;
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
    raise exception 'queue % is not a name: letters, digits and . _ : - up to 100', quote_literal(found_definition.queue)
      using errcode = 'WL007', column = 'queue';
  end if;
  if for_queue is not null or for_priority is not null then
    perform windlass.hold_to_lanes(for_tenant, found_definition.queue, case when for_queue is null then 'priority' else 'queue' end);
  end if;
  -- Two first users of a lane meet here, and so do one and a keeper that deletes it: the loser reads the winner's row in a fresh snapshot.
  insert into windlass.lane as l (tenant_id, definition_id, queue, priority)
    values (for_tenant, found_definition.id, found_definition.queue, found_definition.priority)
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

-- Refuses (WL014) a new lane that the caller's choice of queue or priority asks for when the tenant has all the lanes, or all the
-- queue names, that it may have. `field` is what the caller chose. A job that leaves both to its definition is never refused: there
-- are as many such lanes as definitions, and tenants do not make those.
-- Index: lane's primary key, whose first column is the tenant; read only when a lane is made.
-- Lanes that are retired do not count, and one that is used again counts as new.
-- From a tenth of the limit on, those who make lanes for one tenant wait for each other, so the limit is exceeded by no more than
-- what simultaneous transactions make below that tenth. Below it a transaction makes three without waiting, which no other one sees until it
-- commits: an open transaction must not hold up a tenant's first use of another queue. From the fourth on it waits as well. A transaction with
-- one snapshot throughout cannot tell where the tenant is now, so it always waits, and fails (40001) if others passed here since.
create or replace function windlass.hold_to_lanes(tenant uuid, new_queue text, field text) returns void
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
      raise exception 'the tenant uses % combinations of definition, queue and priority, and may use % (max_lanes)', has.lanes, most.max_lanes
        using errcode = 'WL014', column = field, detail = most.max_lanes::text;
    elsif has.queues >= most.max_queue_names and not has.is_known then
      raise exception 'the tenant uses % queue names, and may use % (max_queue_names)', has.queues, most.max_queue_names
        using errcode = 'WL014', column = field, detail = most.max_queue_names::text;
    end if;
    exit when look = 2 or (has.lanes < most.max_lanes / 10 and has.queues < most.max_queue_names / 10 and has.mine < 3
                           and current_setting('transaction_isolation') = 'read committed');
    perform windlass.take_turn(tenant, 'lanes');
  end loop;
end
$$;
