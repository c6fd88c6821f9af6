-- Refuses (WL007) fields of a trigger that a keeper could not use, with the field's name. Rust validates more
-- (trigger/check.rs): the cron expression, the template and the conditions. Problems that only a keeper can detect are
-- recorded in `problem`.
create or replace function windlass.check_trigger(fields jsonb, next_due timestamptz) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  rule record;
  value jsonb;
  refused text;
begin
  if jsonb_typeof(fields) is distinct from 'object' then
    raise exception 'a trigger must be a JSON object' using errcode = 'WL007', column = 'fields';
  end if;
  for rule in
    select * from (values ('label', 'string', true), ('is_enabled', 'boolean', true), ('trigger_type', 'string', true),
           ('event_name', 'string', false),
      ('conditions', 'object', true), ('cron_expr', 'string', false), ('timezone', 'string', false), ('definition_key', 'string', true),
      ('payload_template', null, true), ('dedupe_window_seconds', 'number', true), ('created_by', 'string', false),
      ('misfire', 'string', true),
      ('misfire_max', 'number', true), ('misfire_window_seconds', 'number', true), ('misfire_grace_seconds', 'number', true),
      ('overlap', 'string', true), ('jitter_seconds', 'number', true), ('starts_at', 'string', false), ('ends_at', 'string', false))
      r (name, type, is_needed)
  loop
    value := fields -> rule.name;
    if rule.is_needed and value is null or jsonb_typeof(value) is distinct from rule.type and rule.type is not null
        and coalesce(value, 'null') <> 'null' or rule.is_needed and rule.type is not null and value = 'null' then
      raise exception '% must be a JSON %', rule.name, coalesce(rule.type, 'value') using errcode = 'WL007', column = rule.name;
    end if;
  end loop;
  for rule in
    select * from (values ('dedupe_window_seconds', 0, 31622400), ('misfire_max', 1, 1000), ('misfire_window_seconds', 1, 31622400),
      ('misfire_grace_seconds', 1, 86400), ('jitter_seconds', 0, 86400)) r (name, lowest, highest)
  loop
    if not windlass.is_whole(fields -> rule.name, rule.lowest, rule.highest) then
      raise exception '% must be a whole number between % and %', rule.name, rule.lowest, rule.highest
        using errcode = 'WL007', column = rule.name;
    end if;
  end loop;
  select f.name into refused from (values
      ('label', octet_length(fields ->> 'label') between 1 and 200), ('trigger_type', fields ->> 'trigger_type' in ('event', 'schedule')),
      ('misfire', fields ->> 'misfire' in ('skip', 'fire_once', 'fire_all')),
      ('overlap', fields ->> 'overlap' in ('allow', 'skip', 'queue_one', 'cancel_running')),
      ('cron_expr', (fields ->> 'trigger_type' = 'schedule') = (fields ->> 'cron_expr' is not null)),
      ('cron_expr', fields ->> 'cron_expr' is null or octet_length(fields ->> 'cron_expr') between 1 and 500),
      ('timezone', (fields ->> 'trigger_type' = 'schedule') = (fields ->> 'timezone' is not null)),
      ('timezone', fields ->> 'timezone' is null or windlass.is_time_zone(fields ->> 'timezone')),
      ('event_name', (fields ->> 'trigger_type' = 'event') = (fields ->> 'event_name' is not null)),
      ('event_name', fields ->> 'event_name' is null or octet_length(fields ->> 'event_name') between 1 and 200),
      ('conditions', octet_length((fields -> 'conditions')::text) <= 65536),
      ('payload_template', octet_length((fields -> 'payload_template')::text) <= 65536)) f (name, is_fine)
   where not f.is_fine limit 1;
  if found then
    raise exception '% is not allowed for this trigger', refused using errcode = 'WL007', column = refused;
  end if;
  perform windlass.check_instant('starts_at', (fields ->> 'starts_at')::timestamptz);
  perform windlass.check_instant('ends_at', (fields ->> 'ends_at')::timestamptz);
  perform windlass.check_instant('next_due', next_due);
end
$$;

-- Whether the server has a time zone of this name.
create or replace function windlass.is_time_zone(name text) returns boolean
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform timestamptz 'epoch' at time zone name;
  return name ~ '^[A-Za-z][A-Za-z0-9_+/-]{0,99}$';
exception when invalid_parameter_value then
  return false;
end
$$;

-- The fields of a trigger, with instants that every client can represent.
create or replace function windlass.trigger_fields(of_trigger windlass.job_triggers, definition_key text) returns jsonb
language sql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(of_trigger) || jsonb_build_object('definition_key', definition_key, 'next_due_at',
         windlass.shown_instant(of_trigger.next_due_at),
    'starts_at', windlass.shown_instant(of_trigger.starts_at), 'ends_at', windlass.shown_instant(of_trigger.ends_at))
$$;
