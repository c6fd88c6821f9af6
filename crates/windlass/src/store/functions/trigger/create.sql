-- Creates a trigger from fields that were validated in Rust, and here as far as SQL can; next_due is its first instant,
-- null for an event trigger or one that is disabled. Notifies the scheduler, because the instant may be before its next
-- check.
create or replace function windlass.create_trigger(tenant uuid, fields jsonb, next_due timestamptz) returns uuid
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  new_id uuid;
begin
  perform windlass.tenant_for(tenant);
  perform windlass.check_not_null(jsonb_build_object('tenant', tenant));
  perform windlass.check_trigger(fields, next_due);
  perform windlass.limit_triggers(tenant);
  perform windlass.route(tenant, fields ->> 'definition_key', null, null); -- refuses a definition that does not exist or is not active
  insert into windlass.job_triggers (tenant_id, label, is_enabled, trigger_type, event_name, conditions, cron_expr, timezone,
      definition_id, payload_template, dedupe_window_seconds, created_by, misfire, misfire_max, misfire_window_seconds,
      misfire_grace_seconds, overlap, jitter_seconds, starts_at, ends_at, next_due_at)
    select tenant, f.label, f.is_enabled, f.trigger_type, f.event_name, f.conditions, f.cron_expr, f.timezone, d.id,
           fields -> 'payload_template', f.dedupe_window_seconds, case when windlass.is_server() then f.created_by end,
           f.misfire, f.misfire_max, f.misfire_window_seconds,
           f.misfire_grace_seconds, f.overlap, f.jitter_seconds, f.starts_at, f.ends_at, next_due
      from jsonb_to_record(fields) f (label text, is_enabled boolean, trigger_type text, event_name text, conditions jsonb,
        cron_expr text, timezone text, dedupe_window_seconds integer, created_by uuid, misfire text, misfire_max integer,
        misfire_window_seconds integer, misfire_grace_seconds integer, overlap text, jitter_seconds integer, starts_at timestamptz,
        ends_at timestamptz)
      join windlass.job_definitions d on d.key = fields ->> 'definition_key'
  returning id into new_id;
  perform windlass.record_act(tenant, 'trigger.create', new_id::text, null, windlass.recorded_trigger(tenant, new_id));
  if next_due is not null then
    perform pg_notify('windlass', 'schedule');
  end if;
  return new_id;
end
$$;

-- A trigger as the audit trail records it: without its template and its conditions, which can contain secrets.
create or replace function windlass.recorded_trigger(tenant uuid, trigger uuid) returns jsonb
language sql stable
as $$
  select windlass.trigger_fields(t, d.key) operator(pg_catalog.-) '{payload_template,conditions}'::pg_catalog.text[]
    from windlass.job_triggers t join windlass.job_definitions d on d.id operator(pg_catalog.=) t.definition_id
   where t.tenant_id operator(pg_catalog.=) tenant and t.id operator(pg_catalog.=) trigger
$$;

-- Refuses (WL015) a new trigger if the tenant has reached its limit.
-- Creations take turns, so the limit is exact at every isolation level: with an older snapshot, the turn fails (40001).
-- Not the tenant's row, which an open enqueue may hold because of its quota.
create or replace function windlass.limit_triggers(tenant uuid) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  most integer;
begin
  perform windlass.take_turn(tenant, 'triggers');
  select t.max_triggers into most from windlass.tenants t where t.id = tenant;
  if (select count(*) from windlass.job_triggers t where t.tenant_id = tenant and t.deleted_at is null) >= most then
    raise exception 'the tenant has reached its limit of % triggers (max_triggers)', most using errcode = 'WL015', detail = most::text;
  end if;
end
$$;
