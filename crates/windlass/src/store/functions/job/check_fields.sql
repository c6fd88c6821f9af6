-- Refuses (WL007) an option of enqueue_many whose JSON type is not that of its argument, with the field's name and what is expected.
-- place: which options these are. A conversion would report neither, or store a number as a text. Unknown names and values are refused
-- by the callers.
create or replace function windlass.check_fields(place text, fields jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  field record;
  expected text;
begin
  for field in select f.key, f.value, f.value #>> '{}' as plain, jsonb_typeof(f.value) as type from jsonb_each(fields) f loop
    expected := case
      when field.type = 'null' or field.key = 'uniqueness' then null
      when field.key in ('priority', 'max_attempts') then
        case when not windlass.is_whole(field.value, -2147483648, 2147483647) then 'a whole number' end
      when field.key in ('tags', 'depends_on') then
        case when field.type <> 'array' or jsonb_path_exists(field.value, 'strict $[*] ? (@.type() != "string")')
            or field.key = 'depends_on' and exists (select from jsonb_array_elements_text(field.value) e
              where not windlass.is_of_type(e, 'uuid'))
          then case field.key when 'tags' then 'an array of strings' else 'an array of ids of jobs' end end
      when field.key = 'delay' then
        case when field.type not in ('string', 'number') or not windlass.is_of_type(field.plain, 'interval')
          then 'an interval such as "5 minutes", or a number of seconds' end
      when field.key in ('scheduled_for', 'deadline') then
        case when field.type <> 'string' or not windlass.is_of_type(field.plain, 'timestamptz')
          then 'an instant such as "2030-01-31T08:00:00Z"' end
      when field.key in ('parent_id', 'created_by', 'job_id') then
        case when field.type <> 'string' or not windlass.is_of_type(field.plain, 'uuid') then 'a UUID' end
      when field.type <> 'string' then 'a string' end;
    if expected is not null then
      raise exception '%: % must be %, not %', place, field.key, expected, left(field.value::text, 100)
        using errcode = 'WL007', column = field.key;
    end if;
  end loop;
end
$$;

-- Whether the text can be converted.
create or replace function windlass.is_of_type(value text, type text) returns boolean
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  case type
    when 'uuid' then perform value::uuid;
    when 'interval' then perform value::interval;
    when 'timestamptz' then perform value::timestamptz;
  end case;
  return true;
exception when data_exception then
  return false;
end
$$;
