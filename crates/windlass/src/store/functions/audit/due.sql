-- What a person changes with SQL has a row in the audit trail. Every function that an operator or an admin can call, and that changes
-- something, calls must_record. The server, the library and the commands write the row themselves, in the same transaction and with more
-- details. Therefore the row is written at the end of the transaction, and only if it is missing.
-- The server is trusted to record its acts (Acting::commit refuses a transaction without a row), so its requests pay nothing for this.

-- `acts`: any of these actions is accepted; the first one is written if there is none. No tenant: the current one, or the installation.
-- Secrets and payloads do not belong in `was` and `became`.
create or replace function windlass.must_record(
  for_tenant uuid, acts text[], of_target text, was jsonb default null, became jsonb default null) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if not windlass.is_server() then
    insert into windlass.audit_due (tenant_id, actions, target, before, after)
      values (coalesce(for_tenant, windlass.current_tenant(), '00000000-0000-0000-0000-000000000000'), acts, of_target, was, became);
  end if;
end
$$;

-- Runs when the transaction commits. The act of one tenant can be recorded as an act of the installation, as the commands of an operator
-- who works on all tenants do. A row that this function wrote for an earlier act of the transaction does not count: two acts on one
-- target are two rows. The ids of those rows are in a setting of the transaction; a forged value can only cause further rows.
-- Index: audit_by_xid.
create or replace function windlass.record_due() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  written constant text[] := string_to_array(current_setting('windlass.recorded', true), ' ');
  new_id text;
begin
  if not exists (
      select from windlass.audit a
       where a.xid = pg_current_xact_id() and a.action = any (new.actions) and a.target = new.target and a.outcome = 'done'
         and (a.id::text = any (written)) is not true
         and a.tenant_id in (new.tenant_id, '00000000-0000-0000-0000-000000000000')) then
    insert into windlass.audit (tenant_id, actor, role, action, target, before, after)
      values (new.tenant_id, windlass.login_actor(), windlass.caller(), new.actions[1], new.target, new.before, new.after)
      returning id::text into new_id;
    perform set_config('windlass.recorded', array_to_string(written || new_id, ' '), true);
  end if;
  delete from windlass.audit_due d where d.tenant_id = new.tenant_id and d.id = new.id;
  return null;
end
$$;
do $$
begin
  if not exists (select from pg_trigger t where t.tgrelid = 'windlass.audit_due'::regclass and t.tgname = 'record_due') then
    create constraint trigger record_due after insert on windlass.audit_due deferrable initially deferred
      for each row execute function windlass.record_due();
  end if;
end
$$;
