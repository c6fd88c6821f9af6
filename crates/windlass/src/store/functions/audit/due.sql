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
    insert into windlass.audit_due (tenant_id, role, actions, target, before, after, after_audit)
      values (coalesce(for_tenant, windlass.current_tenant(), '00000000-0000-0000-0000-000000000000'), windlass.caller(), acts, of_target,
              was, became,
              coalesce((select max(a.id) from windlass.audit a where a.xid = pg_current_xact_id()), 0));
  end if;
end
$$;

-- Runs when the transaction commits, for each act in order. The act of one tenant can be recorded as an act of the installation, as the
-- commands of an operator who works on all tenants do. Each act has a row of its own: one that was written after it, and that no earlier
-- act of the transaction uses. Nothing that the caller can change decides this: no setting, and neither does the moment at which this runs
-- (SET CONSTRAINTS … IMMEDIATE), because a row from before an act never counts for it. Other transactions' rows of audit_due are not
-- visible: they are deleted before the commit. The role is the one that acted, and not the one that commits.
-- Index: audit_by_xid, audit_due_by_audit, audit_due_by_id.
create or replace function windlass.record_due() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  entry bigint;
begin
  if not exists (select from windlass.audit_due d where d.tenant_id = new.tenant_id and d.id = new.id) then
    return null; -- part of another act
  end if;
  select a.id into entry from windlass.audit a
   where a.xid = pg_current_xact_id() and a.id > new.after_audit
     and a.action = any (new.actions) and a.target = new.target and a.outcome = 'done'
     and a.tenant_id in (new.tenant_id, '00000000-0000-0000-0000-000000000000')
     and not exists (select from windlass.audit_due d where d.audit_id = a.id)
   order by a.id limit 1;
  if not found then
    insert into windlass.audit (tenant_id, actor, role, action, target, before, after)
      values (new.tenant_id, windlass.login_actor(), coalesce(new.role, windlass.caller()), new.actions[1], new.target,
        new.before, new.after)
      returning id into entry;
  end if;
  if exists (select from windlass.audit_due d where d.id > new.id) then
    update windlass.audit_due d set audit_id = entry where d.tenant_id = new.tenant_id and d.id = new.id;
  else
    delete from windlass.audit_due d where d.id <= new.id;
  end if;
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
