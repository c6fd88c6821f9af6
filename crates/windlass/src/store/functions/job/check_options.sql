-- Refuses invalid options of the SQL function, with the field's name; Rust callers validate before.
-- texts: dedupe_key, idempotency_key, ordering_key, subject_type, subject_id, correlation_id, source_ref, trace.
create or replace function windlass.check_options(
  payload jsonb, source text, max_attempts integer, if_unmet text, uniqueness jsonb, tags text[], texts text[])
returns void
language plpgsql immutable
as $$
declare
  refused text;
begin
  if payload is null then
    perform windlass.raise_null('payload');
  end if;
  perform windlass.check_json('payload', payload);
  if windlass.source_code(source) is null then
    raise exception 'source % is not one of manual, event, schedule, system', quote_nullable(source)
      using errcode = 'WL007', column = 'source';
  end if;
  if max_attempts not between 1 and 1000 then
    raise exception 'max_attempts must be between 1 and 1000, not %', max_attempts using errcode = 'WL007', column = 'max_attempts';
  end if;
  if if_unmet not in ('cancel', 'run', 'wait') then
    raise exception 'if_unmet % is not one of cancel, run, wait', quote_literal(if_unmet) using errcode = 'WL007', column = 'if_unmet';
  end if;
  if not windlass.is_uniqueness(uniqueness) then
    raise exception 'uniqueness must be "active", "forever" or {"window_seconds": n}, where n is greater than 0 and at most % (ten years)',
      315360000
      using errcode = 'WL007', column = 'uniqueness';
  end if;
  if cardinality(tags) > 20 or not windlass.is_list(tags) or exists (select from unnest(tags) t where t is null
    or octet_length(t) not between 1 and 100) then
    raise exception 'tags must have at most 20 strings of 1 to 100 bytes each' using errcode = 'WL007', column = 'tags';
  end if;
  select (array['dedupe_key', 'idempotency_key', 'ordering_key', 'subject_type', 'subject_id', 'correlation_id', 'source_ref',
                'trace'])[t.ord] into refused
    from unnest(texts) with ordinality t (text, ord) where octet_length(t.text) not between 1 and 500 limit 1;
  if found then
    raise exception '% must have 1 to 500 bytes', refused using errcode = 'WL007', column = refused;
  end if;
  if texts[4] is not null and texts[5] is null then
    raise exception 'subject_type has no subject_id' using errcode = 'WL007', column = 'subject_id';
  end if;
  if texts[5] is not null and texts[4] is null then
    raise exception 'subject_id has no subject_type' using errcode = 'WL007', column = 'subject_type';
  end if;
  if not windlass.is_traceparent(texts[8]) then
    raise exception 'trace must be a W3C traceparent' using errcode = 'WL007', column = 'trace';
  end if;
end
$$;

-- The same rule in Rust is in trace.rs. Null for null.
create or replace function windlass.is_traceparent(trace text) returns boolean
language sql immutable
return trace ~* '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$';
