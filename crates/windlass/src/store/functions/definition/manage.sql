-- A definition as the API returns it: its fields, and a version that changes with any of them.
create or replace function windlass.shown_definition(of_id uuid) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(d) || jsonb_build_object('version',
           md5((to_jsonb(d) - 'created_at' - 'updated_at')::text || extract(epoch from d.updated_at)))
    from windlass.job_definitions d where d.id = of_id
$$;

-- Creates a definition. Refuses an existing key, which `define` would update.
create or replace function windlass.create_definition(definition jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  made uuid;
begin
  perform windlass.check_no_tenant('a definition');
  perform windlass.check_definition(definition); -- before the key is used
  insert into windlass.job_definitions (key) values (definition ->> 'key') on conflict (key) do nothing;
  if not found then
    perform windlass.raise_used('key', 'job_definitions_key_unique');
  end if;
  made := windlass.write_definition(definition); -- a separate statement, so that the next one sees its effect
  perform windlass.record_act(null, 'definition.create', made::text, null, windlass.shown_definition(made));
  return windlass.shown_definition(made);
end
$$;

-- Changes the given fields. `expected` is the version that the caller has read: a different one is refused (WL011),
-- null disables the check. Returns null if there is no such definition. Locks its row.
create or replace function windlass.change_definition(of_id uuid, fields jsonb, expected text) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  its_key text;
  was jsonb;
begin
  perform windlass.check_no_tenant('a definition');
  if jsonb_typeof(fields) is distinct from 'object' then
    raise exception 'fields must be a JSON object' using errcode = 'WL007', column = 'fields';
  end if;
  select d.key into its_key from windlass.job_definitions d where d.id = of_id for no key update;
  if not found then
    return null;
  elsif expected is not null and windlass.shown_definition(of_id) ->> 'version' <> expected then
    raise exception 'the definition was changed' using errcode = 'WL011', detail = 'definition';
  end if;
  was := windlass.shown_definition(of_id); -- of the locked row
  fields := fields || jsonb_build_object('key', its_key);
  perform windlass.check_definition(fields);
  perform windlass.write_definition(fields);
  if windlass.shown_definition(of_id) <> was then
    perform windlass.record_act(null, 'definition.change', of_id::text, was, windlass.shown_definition(of_id));
  end if;
  return windlass.shown_definition(of_id);
end
$$;
