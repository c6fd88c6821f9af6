-- Every act is recorded once, by the function that does it, in the transaction of the act. No caller says what was done: the function
-- knows the tenant, the action, the target, and the state before and after. The caller only gives its name, as the setting
-- windlass.actor: a JSON object with name, role, from_address and request_id. What is believed of it is decided by actor_for and role_for:
-- the server names its callers; every other caller is recorded by its login, followed by the name that it gives.
-- No tenant: the current one, or the installation. Secrets and payloads do not belong in `was` and `became`.
create or replace function windlass.record_act(
  for_tenant uuid, act text, of_target text, was jsonb default null, became jsonb default null) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  named constant jsonb := nullif(current_setting('windlass.actor', true), '');
begin
  perform windlass.write_audit(coalesce(for_tenant, windlass.current_tenant(), '00000000-0000-0000-0000-000000000000'),
    named ->> 'name', coalesce(named ->> 'role', windlass.caller()), named ->> 'from_address', named ->> 'request_id',
    act, of_target, 'done', was, became);
end
$$;

-- The first 500 bytes of a text that a caller gives, up to a whole character: entries are listed in pages, and one of many megabytes
-- would keep its page from being read. A character has at most four bytes.
create or replace function windlass.cut_text(given text) returns text
language sql immutable
return case when octet_length(given) <= 500 then given
  else (select left(given, max(n)) from generate_series(125, 500) n where octet_length(left(given, n)) <= 500) end;

-- The tenant of an act on a person's account, which belongs to no tenant: the one for which the server acts, otherwise the installation.
create or replace function windlass.tenant_of_person() returns uuid
language sql stable
return coalesce(case when windlass.is_server() then windlass.current_tenant() end, '00000000-0000-0000-0000-000000000000');

-- Writes one row, with the time of the act: that of the transaction is chosen by its caller, who may begin it long before.
-- Actions of the installation belong to the nil tenant. No row is ever changed: see append_only. Only the server can name
-- an address or a request, or an actor or a role other than those of its login. Only functions of the owner call it.
create or replace function windlass.write_audit(
  for_tenant uuid, by_actor text, by_role text, from_address text, request_id text, act text, target text, outcome text,
  before jsonb, after jsonb) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  insert into windlass.audit (at, tenant_id, actor, role, from_address, request_id, action, target, outcome, before, after)
    values (clock_timestamp(), $1, windlass.actor_for(windlass.cut_text($2)), windlass.role_for(windlass.cut_text($3)),
            case when windlass.is_server() then windlass.cut_text($4) end,
            case when windlass.is_server() then windlass.cut_text($5) end, windlass.cut_text($6),
            windlass.cut_text($7), $8, $9, $10);
end
$$;

-- Records what no function records: a request that was denied, and the jobs and events of a caller of the server or of a command, which are
-- created with the functions of applications. Nothing else, so that no row can claim an act that its function did not record.
create or replace function windlass.record_audit(
  for_tenant uuid, by_actor text, by_role text, from_address text, request_id text, act text, target text, outcome text,
  before jsonb, after jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.tenant_for(for_tenant);
  perform windlass.check_trail(for_tenant);
  if num_nulls(act, target, outcome) > 0 then
    perform windlass.check_not_null(jsonb_build_object('act', act, 'target', target, 'outcome', outcome));
  elsif outcome not in ('done', 'denied') then
    raise exception 'outcome must be done or denied' using errcode = 'WL007', column = 'outcome';
  elsif outcome = 'done' and windlass.records_itself(act) then
    perform windlass.raise_recorded(act);
  end if;
  if pg_column_size(before) > 1048576 or pg_column_size(after) > 1048576 then
    perform windlass.raise_large_entry();
  end if;
  -- As in write_audit, without another call: every enqueue over HTTP does this.
  insert into windlass.audit (at, tenant_id, actor, role, from_address, request_id, action, target, outcome, before, after)
    values (clock_timestamp(), $1, windlass.actor_for(windlass.cut_text($2)), windlass.role_for(windlass.cut_text($3)),
            case when windlass.is_server() then windlass.cut_text($4) end,
            case when windlass.is_server() then windlass.cut_text($5) end, windlass.cut_text($6),
            windlass.cut_text($7), $8, $9, $10);
end
$$;

-- Refuses (WL003) an entry for a tenant that does not exist: it would be in the trail of a later one with this id. Without a lock,
-- because every enqueue over HTTP is recorded. The nil id is the installation.
create or replace function windlass.check_trail(tenant uuid) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if tenant is distinct from '00000000-0000-0000-0000-000000000000' and not exists (select from windlass.tenants t where t.id = tenant) then
    raise exception 'tenant % not found', coalesce(tenant::text, 'null') using errcode = 'WL003', detail = coalesce(tenant::text, '');
  end if;
end
$$;

-- Whether the action is recorded by the function that does it.
create or replace function windlass.records_itself(act text) returns boolean
language sql immutable
return act is null or act not in ('job.enqueue', 'job.enqueue_many', 'event.emit');

-- Refuses (WL007) the row of such an action.
create or replace function windlass.raise_recorded(act text) returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception 'action % is recorded by its own function and cannot be recorded separately', left(quote_nullable(act), 100)
    using errcode = 'WL007', column = 'act';
end
$$;

-- Refuses (WL007) an entry that is too large, for the same reason as cut_text.
create or replace function windlass.raise_large_entry() returns void
language plpgsql
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception 'the details of an audit trail entry must have at most 1 MiB' using errcode = 'WL007', column = 'after';
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
    perform windlass.raise_array();
  end if;
  perform windlass.tenant_for(for_tenant);
  perform windlass.check_trail(for_tenant);
  if windlass.records_itself(act) then
    perform windlass.raise_recorded(act);
  end if;
  if not windlass.is_full(targets, greatest(cardinality(actors), cardinality(roles), cardinality(addresses), cardinality(request_ids),
      cardinality(targets), cardinality(afters))) then
    perform windlass.raise_list('targets');
  elsif exists (select from unnest(afters) a (after) where pg_column_size(a.after) > 1048576) then
    perform windlass.raise_large_entry();
  end if;
  insert into windlass.audit (at, tenant_id, actor, role, from_address, request_id, action, target, outcome, after)
    select clock_timestamp(), for_tenant, windlass.actor_for(windlass.cut_text(e.actor)), windlass.role_for(windlass.cut_text(e.role)),
           case when windlass.is_server() then windlass.cut_text(e.address) end,
           case when windlass.is_server() then windlass.cut_text(e.request_id) end, act,
           windlass.cut_text(e.target), 'done', e.after
      from unnest(actors, roles, addresses, request_ids, targets, afters) e (actor, role, address, request_id, target, after);
end
$$;

-- Of earlier builds, in which the row of an act was written at the end of its transaction. Nobody could read the table, but every login
-- could create a view on it, which must not stop a migration.
drop table if exists windlass.audit_due cascade;
drop function if exists windlass.record_due();
drop function if exists windlass.must_record(uuid, text[], text, jsonb, jsonb);

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
