-- Rules for JSON fields. Each returns null for null, so an absent field passes. Immutable and without a table, so that
-- they can be applied to a row that was stored before the rule existed.
create or replace function windlass.is_whole(value jsonb, lowest bigint, highest bigint) returns boolean
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  -- Nested, because AND does not guarantee that the type is checked first.
  if jsonb_typeof(value) = 'number' then
    return value::numeric between lowest and highest and value::text !~ '[.]'; -- 5.0 is a number that no integer column reads
  end if;
  return case when value is not null then false end;
end
$$;

create or replace function windlass.is_uniqueness(value jsonb) returns boolean
language sql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
  select case jsonb_typeof(value)
    when 'object' then value - 'window_seconds' = '{}'
      and jsonb_path_exists(value, '$.window_seconds ? (@.type() == "number" && @ > 0 && @ <= 315360000)')
    else value in ('"active"', '"forever"') end
$$;

create or replace function windlass.retention_problem(value jsonb) returns text
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  rule record;
begin
  if jsonb_typeof(value) <> 'object' then
    return 'must be an object such as {"succeeded": 604800}';
  elsif value is not null then
    for rule in select * from jsonb_each(value) loop
      if windlass.has_ended(windlass.state_code(rule.key)) is not true then
        return format('has %s, which is not one of succeeded, failed, dead_letter, canceled', quote_literal(left(rule.key, 100)));
      elsif rule.value <> 'null' and not windlass.is_whole(rule.value, 0, 3162240000) then
        return format('%s must be a whole number of seconds between 0 and 3162240000 (100 years)', rule.key);
      end if;
    end loop;
  end if;
  return null;
end
$$;

-- The policies of a job whose definition does not exist, and a backoff's fields that are not set. The columns of job_definitions have
-- the same defaults, and so have Policies and Backoff in Rust; the test the_default_policies_are_the_same_everywhere compares them.
create or replace function windlass.default_policies() returns jsonb
language sql immutable parallel safe
return jsonb '{"timeout_seconds": 3600, "max_lost": 3, "max_snoozes": 1000, "on_timeout": "retry", "on_lost": "retry",
  "backoff": {"kind": "exponential", "base_seconds": 30, "factor": 2, "cap_seconds": 600, "jitter": 0.2}}';

create or replace function windlass.backoff_problem(value jsonb) returns text
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  member record;
  complete jsonb;
begin
  if jsonb_typeof(value) <> 'object' then
    return 'must be an object such as {"kind": "exponential", "base_seconds": 30}';
  elsif value is null then
    return null;
  end if;
  for member in select * from jsonb_each(value) loop
    if member.key = 'kind' then
      if member.value not in ('"exponential"', '"linear"', '"fixed"') then
        return 'kind must be "exponential", "linear" or "fixed"';
      end if;
    elsif member.key not in ('base_seconds', 'factor', 'cap_seconds', 'jitter') then
      return format('has an unknown field %s', quote_literal(left(member.key, 100)));
    elsif jsonb_typeof(member.value) <> 'number' then
      return format('%s must be a number', member.key);
    elsif member.key in ('base_seconds', 'cap_seconds') and member.value::numeric not between 0 and 31622400 then
      return format('%s must be between 0 and 31622400 (366 days)', member.key);
    elsif member.key = 'factor' and member.value::numeric not between 1 and 1000 then
      return 'factor must be between 1 and 1000';
    elsif member.key = 'jitter' and member.value::numeric not between 0 and 1 then
      return 'jitter must be a fraction between 0 and 1';
    end if;
  end loop;
  complete := (windlass.default_policies() -> 'backoff') || value;
  return case when (complete -> 'cap_seconds')::numeric < (complete -> 'base_seconds')::numeric
    then 'cap_seconds must be at least base_seconds' end;
end
$$;

-- The expressions themselves are validated in Rust.
create or replace function windlass.redaction_problem(value jsonb) returns text
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  member record;
begin
  if jsonb_typeof(value) <> 'object' then
    return 'must be an object such as {"keys": ["account"], "expressions": []}';
  elsif value is not null then
    for member in select * from jsonb_each(value) loop
      if member.key not in ('expressions', 'keys') then
        return format('has an unknown field %s', quote_literal(left(member.key, 100)));
      elsif jsonb_typeof(member.value) <> 'array' or jsonb_path_exists(member.value, 'strict $[*] ? (@.type() != "string")')
          or jsonb_array_length(member.value) > 32 then
        return format('%s must have at most 32 strings', member.key);
      elsif exists (select from jsonb_array_elements_text(member.value) t
                     where octet_length(t) not between 1 and case member.key when 'keys' then 100 else 1000 end) then
        return format('%s must have 1 to %s bytes each', member.key, case member.key when 'keys' then 100 else 1000 end);
      end if;
    end loop;
  end if;
  return null;
end
$$;
