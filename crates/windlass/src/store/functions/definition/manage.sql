-- A definition as it is shown: its fields, and a version that changes with any of them.
create or replace function windlass.shown_definition(of_id uuid) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(d) || jsonb_build_object('version', md5((to_jsonb(d) - 'created_at' - 'updated_at')::text || extract(epoch from d.updated_at)))
    from windlass.job_definitions d where d.id = of_id
$$;

-- Makes a definition; one whose key is there already is refused, where `define` would change it.
create or replace function windlass.create_definition(definition jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  made uuid;
begin
  perform windlass.refuse_definition(definition); -- before the key is used
  insert into windlass.job_definitions (key) values (definition ->> 'key');
  made := windlass.write_definition(definition); -- a statement of its own, so that the next one sees what it did
  return windlass.shown_definition(made);
end
$$;

-- Changes the fields given. `expected` is the version the caller has seen: another one is refused (WL011), null asks for none.
-- Answers null if there is no such definition. Locks its row.
create or replace function windlass.change_definition(of_id uuid, fields jsonb, expected text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  its_key text;
begin
  if jsonb_typeof(fields) is distinct from 'object' then
    raise exception 'fields must be a JSON object' using errcode = 'WL007', column = 'fields';
  end if;
  select d.key into its_key from windlass.job_definitions d where d.id = of_id for update;
  if not found then
    return null;
  elsif expected is not null and windlass.shown_definition(of_id) ->> 'version' <> expected then
    raise exception 'the definition was changed' using errcode = 'WL011', detail = 'definition';
  end if;
  perform windlass.write_definition(fields || jsonb_build_object('key', its_key));
  return windlass.shown_definition(of_id);
end
$$;
