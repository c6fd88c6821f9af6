-- A payload as it is read. Payloads are stored as text (decision 0013); our doors let in only what jsonb can hold, but a role that
-- may enqueue can also call the functions behind them, and a payload that cannot be read must not take the whole list with it:
-- it is shown as its text. No SET clause and no unqualified name, because it runs for every row of a list.
create or replace function windlass.readable(payload json) returns jsonb
language plpgsql immutable
as $$
begin
  return payload::pg_catalog.jsonb;
exception when data_exception or program_limit_exceeded then
  return pg_catalog.to_jsonb(payload::pg_catalog.text);
end
$$;
