-- Records one action of one caller, in the transaction of the action itself. Actions of the installation belong to the
-- nil tenant. No row is ever changed: see append_only. Only the server can name an address, or an actor or a role other
-- than those of its login.
create or replace function windlass.record_audit(
  for_tenant uuid, by_actor text, by_role text, from_address text, request_id text, act text, target text, outcome text,
  before jsonb, after jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.tenant_for(for_tenant);
  insert into windlass.audit (tenant_id, actor, role, from_address, request_id, action, target, outcome, before, after)
    values ($1, windlass.actor_for($2), windlass.role_for($3), case when windlass.is_server() then $4 end, $5, $6, $7, $8, $9, $10);
end
$$;

-- Records the same action of several callers of one tenant in one statement.
create or replace function windlass.record_audits(
  for_tenant uuid, actors text[], roles text[], addresses text[], request_ids text[], act text, targets text[], afters jsonb[]) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if not (windlass.is_list(actors) and windlass.is_list(roles) and windlass.is_list(addresses)
      and windlass.is_list(request_ids) and windlass.is_list(targets) and windlass.is_list(afters)) then
    perform windlass.refuse_array();
  end if;
  perform windlass.tenant_for(for_tenant);
  insert into windlass.audit (tenant_id, actor, role, from_address, request_id, action, target, outcome, after)
    select for_tenant, windlass.actor_for(e.actor), windlass.role_for(e.role), case when windlass.is_server() then e.address end,
           e.request_id, act, e.target, 'done', e.after
      from unnest(actors, roles, addresses, request_ids, targets, afters) e (actor, role, address, request_id, target, after);
end
$$;

-- Refuses every change of the audit trail, even by the owner.
create or replace function windlass.refuse_change() returns trigger
language plpgsql
as $$
begin
  raise exception 'the audit trail is append-only' using errcode = 'WL003', detail = tg_table_name;
end
$$;
-- Only if it is missing, because creating a trigger blocks all writes to the table.
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
