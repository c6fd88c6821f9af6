-- One definition by its key, as JSON. Workers read their policies with it.
create or replace function windlass.definition(of_key text) returns jsonb
language sql stable security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select to_jsonb(d) from windlass.job_definitions d where d.key = of_key
$$;
