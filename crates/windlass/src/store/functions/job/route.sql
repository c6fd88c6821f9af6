-- Where a job of this definition stands in line for this tenant, and the policies it starts with.
-- Checks what a foreign key would: the definition exists and is active, the tenant exists and may enqueue.
-- One lookup by primary key each; the lane is made on its first use.
create or replace function windlass.route(
  for_tenant uuid, for_key text, for_queue text, for_priority integer,
  out lane integer, out max_attempts smallint, out start_deadline_seconds integer, out uniqueness jsonb)
language plpgsql
as $$
#variable_conflict use_column
declare
  found_definition record;
  tenant_status text;
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
  select l.id into lane from windlass.lane l
   where l.tenant_id = for_tenant and l.definition_id = found_definition.id
     and l.queue = found_definition.queue and l.priority = found_definition.priority;
  if not found then
    if found_definition.queue !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$' then
      raise exception 'queue % is not a name: letters, digits and . _ : - up to 100', quote_literal(found_definition.queue)
        using errcode = 'WL007', column = 'queue';
    end if;
    -- Two first users of a lane meet here; the loser reads the winner's row in a fresh snapshot.
    insert into windlass.lane (tenant_id, definition_id, queue, priority)
      values (for_tenant, found_definition.id, found_definition.queue, found_definition.priority)
      on conflict do nothing returning id into lane;
    if lane is null then
      select l.id into strict lane from windlass.lane l
       where l.tenant_id = for_tenant and l.definition_id = found_definition.id
         and l.queue = found_definition.queue and l.priority = found_definition.priority;
    end if;
  end if;
end
$$;
