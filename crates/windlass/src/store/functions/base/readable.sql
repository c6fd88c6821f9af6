-- A payload as JSONB. Payloads are stored as text (decision 0013). The API accepts only what jsonb can represent, but a
-- role that may enqueue can call the underlying functions directly. A payload that cannot be read must not fail a whole
-- list, so it is returned as a JSON string. No SET clause and no unqualified name, because it runs for every row of a
-- list.
create or replace function windlass.readable(payload json) returns jsonb
language plpgsql immutable
as $$
begin
  return payload::pg_catalog.jsonb;
exception when data_exception or program_limit_exceeded then
  return pg_catalog.to_jsonb(payload::pg_catalog.text);
end
$$;
