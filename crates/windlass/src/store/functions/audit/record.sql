-- One act of one caller, written in the transaction of the act itself. The installation's own acts are the nil tenant's.
-- Nobody else writes the table, and nobody changes it: see append_only.
create or replace function windlass.record_audit(
  for_tenant uuid, by_actor text, by_role text, from_address text, request_id text, act text, target text, outcome text,
  before jsonb, after jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.tenant_for(for_tenant);
  insert into windlass.audit (tenant_id, actor, role, from_address, request_id, action, target, outcome, before, after)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
end
$$;

-- The same act of several callers of one tenant, written in one transaction.
create or replace function windlass.record_audits(
  for_tenant uuid, actors text[], roles text[], addresses text[], request_ids text[], act text, targets text[], afters jsonb[]) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.tenant_for(for_tenant);
  insert into windlass.audit (tenant_id, actor, role, from_address, request_id, action, target, outcome, after)
    select for_tenant, e.actor, e.role, e.address, e.request_id, act, e.target, 'done', e.after
      from unnest(actors, roles, addresses, request_ids, targets, afters) e (actor, role, address, request_id, target, after);
end
$$;

-- History is not edited, whoever asks: not by the owner either.
create or replace function windlass.refuse_change() returns trigger
language plpgsql
as $$
begin
  raise exception 'the audit trail is append-only' using errcode = 'WL003', detail = tg_table_name;
end
$$;
-- Only where it is missing, because making a trigger locks the table against all who write it.
do $$
declare
  name text;
begin
  foreach name in array array['audit', 'audit_seals'] loop
    if not exists (select from pg_trigger t where t.tgrelid = format('windlass.%I', name)::regclass and t.tgname = 'append_only') then
      execute format('create trigger append_only before update or delete or truncate on windlass.%I
                      for each statement execute function windlass.refuse_change()', name);
    end if;
  end loop;
end
$$;
