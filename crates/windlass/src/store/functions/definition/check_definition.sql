-- The first invalid field of a definition and what it must be; null if all are valid. `define` refuses a definition by
-- it. The doctor applies it to stored rows, because a row may be older than a rule. Absent fields are not checked. The
-- same rules in Rust are in definition.rs and job/backoff.rs; a test compares the ranges with RANGES.
create or replace function windlass.definition_problem(definition jsonb, out field text, out problem text)
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  rule record;
  value jsonb;
begin
  for rule in
    select * from (values ('timeout_seconds', 1, 604800::bigint, false), ('max_attempts', 1, 1000, false), ('priority', 0, 1000, false),
      ('min_priority', 0, 1000, false), ('max_priority', 0, 1000, false), ('max_lost', 1, 1000, false), ('max_snoozes', 0, 32000, false),
      ('max_running', 1, 1000000, true), ('start_deadline_seconds', 1, 315360000, true)) r (name, lowest, highest, is_optional)
  loop
    value := definition -> rule.name;
    if value is not null and not (rule.is_optional and value = 'null') and not windlass.is_whole(value, rule.lowest, rule.highest) then
      field := rule.name;
      problem := format('must be a whole number between %s and %s', rule.lowest, rule.highest);
      return;
    end if;
  end loop;
  for rule in
    select * from (values ('key', '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$', 'letters, digits and . _ : / - up to 200', false),
      ('queue', '^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$', 'letters, digits and . _ : - up to 100', false),
      ('on_timeout', '^(retry|fail)$', '"retry" or "fail"', false), ('on_lost', '^(retry|fail)$', '"retry" or "fail"', false),
      ('on_purge', '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$', 'the key of a definition', true),
      ('description', '', 'a string', false)) r (name, form, expected, is_optional)
  loop
    value := definition -> rule.name;
    if value is not null and not (rule.is_optional and value = 'null')
       and not (jsonb_typeof(value) = 'string' and value #>> '{}' ~ rule.form) then
      field := rule.name;
      problem := 'must be ' || rule.expected;
      return;
    end if;
  end loop;
  select f.name, f.problem into field, problem
    from (values ('is_active', case when jsonb_typeof(definition -> 'is_active') <> 'boolean' then 'must be true or false' end),
                 ('arg_schema', case when jsonb_typeof(definition -> 'arg_schema') not in ('object', 'boolean')
                   then 'must be a JSON Schema' end),
                 ('backoff', windlass.backoff_problem(definition -> 'backoff')),
                 ('uniqueness', case when not windlass.is_uniqueness(definition -> 'uniqueness') then
                   'must be "active", "forever" or {"window_seconds": n}, where n is greater than 0 and at most 315360000 (ten years)' end),
                 ('retention', windlass.retention_problem(definition -> 'retention')),
                 ('redaction', windlass.redaction_problem(definition -> 'redaction'))) f (name, problem)
   where f.problem is not null limit 1;
end
$$;

-- Refuses (WL007) unknown and invalid fields of a definition. Nothing is stored that a keeper cannot read.
create or replace function windlass.check_definition(definition jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  unknown text;
  refused record;
begin
  if jsonb_typeof(definition) is distinct from 'object' then
    raise exception 'a definition must be a JSON object' using errcode = 'WL007', column = 'definition';
  elsif not definition ? 'key' then
    raise exception 'key is required' using errcode = 'WL007', column = 'key';
  end if;
  select k into unknown from jsonb_object_keys(definition) k
   where k <> all (array['key', 'description', 'arg_schema', 'timeout_seconds', 'max_attempts', 'is_active', 'queue', 'priority',
     'min_priority', 'max_priority', 'max_lost', 'max_snoozes', 'max_running', 'start_deadline_seconds', 'on_timeout', 'on_lost',
     'backoff', 'uniqueness', 'retention', 'on_purge', 'redaction']) order by k limit 1;
  if found then
    raise exception 'unknown field %', quote_literal(unknown) using errcode = 'WL007', column = left(unknown, 100);
  end if;
  perform windlass.check_json(f.name, definition -> f.name)
     from unnest(array['description', 'arg_schema', 'backoff', 'uniqueness', 'retention', 'redaction']) f (name) where definition ? f.name;
  select * into refused from windlass.definition_problem(definition);
  if refused.field is not null then
    raise exception '% %', refused.field, refused.problem using errcode = 'WL007', column = refused.field;
  end if;
end
$$;
