-- Emits an event in the caller's own transaction: the event exists if and only if the transaction commits, and every
-- matching trigger creates its job exactly once. A repeated dedupe_id returns the first event.
-- Trap: notifies the dispatcher only while it waits for notifications, because NOTIFY takes a lock that all committing
-- transactions share.
create or replace function windlass.emit(
  name text, payload jsonb default '{}', tenant_id uuid default null, dedupe_id text default null,
  correlation_id text default null, trace text default null, created_by uuid default null,
  out id uuid, out is_duplicate boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  tenant uuid := windlass.tenant_for(emit.tenant_id);
  too_long text;
begin
  if emit.name is null or length(emit.name) > 200 or emit.name !~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$' then
    raise exception 'name must be words of letters, digits, _ and -, separated by dots, with at most 200 characters'
      using errcode = 'WL007', column = 'name';
  elsif emit.payload is null then
    perform windlass.raise_null('payload');
  end if;
  perform windlass.check_json('payload', emit.payload);
  select f.name into too_long from (values ('dedupe_id', emit.dedupe_id), ('correlation_id', emit.correlation_id), ('trace', emit.trace))
    f (name, value) where octet_length(f.value) not between 1 and 500 limit 1;
  if found then
    raise exception '% must have 1 to 500 bytes', too_long using errcode = 'WL007', column = too_long;
  elsif not windlass.is_traceparent(emit.trace) then
    raise exception 'trace must be a W3C traceparent' using errcode = 'WL007', column = 'trace';
  end if;
  perform windlass.stay_durable();
  loop
    id := windlass.uuid7();
    insert into windlass.event (tenant_id, id, name, payload, emitted_at, dedupe_id, correlation_id, trace, created_by)
      values (tenant, emit.id, emit.name, emit.payload, clock_timestamp(), emit.dedupe_id, emit.correlation_id, emit.trace, emit.created_by)
      on conflict (tenant_id, dedupe_id) where dedupe_id is not null do nothing;
    is_duplicate := not found;
    exit when not is_duplicate;
    select e.id into id from windlass.event e where e.tenant_id = tenant and e.dedupe_id = emit.dedupe_id;
    if found then
      return;
    end if; -- pruned between the two statements: try again
  end loop;
  insert into windlass.event_pending (tenant_id, event_id, bytes) values (tenant, emit.id, octet_length(emit.payload::text));
  perform windlass.check_tenants_active(array[tenant]); -- after the writes, so that purge_tenant sees this transaction
  if exists (select from windlass.leader l where l.duty = 'dispatch' and l.notifies_until > clock_timestamp()) then
    perform pg_notify('windlass', 'events');
  end if;
end
$$;
