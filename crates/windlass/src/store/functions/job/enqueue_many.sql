-- Many jobs of one definition, in the caller's transaction. `options` are the named arguments of windlass.enqueue as
-- JSON, for all of them; `each` holds further ones per job. Returns one row per payload, in order.
-- Jobs with guards are taken in the order of their keys, the same as Rust's, so that two batches in opposite order cannot
-- deadlock.
create or replace function windlass.enqueue_many(
  definition_key text, payloads jsonb[], tenant_id uuid default null, options jsonb default '{}', each jsonb[] default null)
returns table (ord integer, id uuid, status text, is_duplicate boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  unknown text;
begin
  if array_position(payloads, null) is not null then
    raise exception 'payloads must not contain null' using errcode = 'WL007', column = 'payloads';
  end if;
  select k into unknown from (
      select jsonb_object_keys(options) as k union all select jsonb_object_keys(e) from unnest(each) e) o
   where k <> all (array['queue', 'priority', 'scheduled_for', 'delay', 'dedupe_key', 'uniqueness', 'idempotency_key', 'ordering_key',
     'depends_on', 'if_unmet', 'subject_type', 'subject_id', 'tags', 'correlation_id', 'source', 'source_ref', 'max_attempts',
     'deadline', 'parent_id', 'created_by', 'trace']) limit 1;
  if found then
    raise exception 'options has no field %', quote_literal(unknown) using errcode = 'WL007', column = 'options';
  end if;
  return query
    select n.ord::integer, e.id, e.status, e.is_duplicate
      from (select p.ord, p.payload, o.* from unnest(payloads) with ordinality p (payload, ord)
             cross join lateral jsonb_to_record(options || coalesce(each[p.ord], '{}')) o (
               queue text, priority integer, scheduled_for timestamptz, delay interval, dedupe_key text, uniqueness jsonb,
               idempotency_key text, ordering_key text, depends_on uuid[], if_unmet text, subject_type text, subject_id text,
               tags text[], correlation_id text, source text, source_ref text, max_attempts integer, deadline timestamptz,
               parent_id uuid, created_by uuid, trace text)
             order by o.idempotency_key collate "C" nulls first, o.dedupe_key collate "C" nulls first,
                      o.ordering_key collate "C" nulls first, p.ord offset 0) n
      cross join lateral windlass.enqueue(enqueue_many.definition_key, n.payload, enqueue_many.tenant_id, n.queue, n.priority,
        n.scheduled_for, n.delay, n.dedupe_key, n.uniqueness, n.idempotency_key, n.ordering_key, n.depends_on, n.if_unmet,
        n.subject_type, n.subject_id, n.tags, n.correlation_id, coalesce(n.source, 'manual'), n.source_ref, n.max_attempts,
        n.deadline, n.parent_id, n.created_by, n.trace) e
     order by n.ord;
end
$$;
