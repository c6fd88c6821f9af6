-- Enqueues many jobs of one definition in the caller's transaction. `options` are the named arguments of
-- windlass.enqueue as JSON, for all jobs; `each` contains further ones per job, null for none. Returns one row per
-- payload, in order.
-- Jobs are enqueued in the given order: jobs with the same ordering key run in it, whatever their other keys are.
-- Lock order (decision 0020): new lanes in order, then keys and dependencies, all before the first job (see lock_keys).
create or replace function windlass.enqueue_many(
  definition_key text, payloads jsonb[], tenant_id uuid default null, options jsonb default '{}', each jsonb[] default null)
returns table (ord integer, id uuid, status text, is_duplicate boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  fields text[];
  unknown text;
  locks boolean;
  keys record;
begin
  if not (windlass.is_list(enqueue_many.payloads) and windlass.is_list(enqueue_many.each)) then
    perform windlass.raise_array(case when windlass.is_list(enqueue_many.each) then 'payloads' else 'each' end);
  end if;
  if array_position(payloads, null) is not null then
    raise exception 'payloads must not contain null' using errcode = 'WL007', column = 'payloads';
  elsif cardinality(each) <> cardinality(payloads) then
    raise exception 'each has % elements and payloads has %; use one for each job', cardinality(each), cardinality(payloads)
      using errcode = 'WL007', column = 'each';
  end if;
  options := coalesce(options, '{}');
  if exists (select from unnest(options || each) o where jsonb_typeof(o) <> 'object') then
    raise exception 'options, and what each contains, must be JSON objects' using errcode = 'WL007', column = 'options';
  end if;
  fields := array(
    select k from (select jsonb_object_keys(options) as k union all select jsonb_object_keys(e) from unnest(each) e) o group by k);
  select k into unknown from unnest(fields) k
   where k <> all (array['queue', 'priority', 'scheduled_for', 'delay', 'dedupe_key', 'uniqueness', 'idempotency_key', 'ordering_key',
     'depends_on', 'if_unmet', 'subject_type', 'subject_id', 'tags', 'correlation_id', 'source', 'source_ref', 'max_attempts',
     'deadline', 'parent_id', 'created_by', 'trace']) limit 1;
  if found then
    raise exception 'options has an unknown field %', quote_literal(unknown) using errcode = 'WL007', column = 'options';
  end if;
  perform windlass.check_fields('options', options);
  perform windlass.check_fields(format('each[%s]', e.ord), e.fields) from unnest(each) with ordinality e (fields, ord)
    where e.fields is not null;
  locks := cardinality(payloads) > 1 and fields && array['idempotency_key', 'dedupe_key', 'ordering_key', 'depends_on'];
  if locks or cardinality(payloads) > 1 and fields && array['queue', 'priority'] then
    perform windlass.lock_quota(windlass.tenant_for(enqueue_many.tenant_id));
    perform windlass.route(windlass.tenant_for(enqueue_many.tenant_id), enqueue_many.definition_key, l.queue, l.priority)
       from (select distinct o.queue collate "C" as queue, o.priority from unnest(payloads) with ordinality p (payload, ord)
              cross join lateral jsonb_to_record(options || coalesce(each[p.ord], '{}')) o (queue text, priority integer)
              order by 1, 2) l;
  end if;
  if locks then
    select array_agg(o.idempotency_key) as idempotency, array_agg(o.dedupe_key) as dedupe, array_agg(o.ordering_key) as ordering,
           array_agg(d) filter (where d is not null) as needs
      into keys from unnest(payloads) with ordinality p (payload, ord)
      cross join lateral jsonb_to_record(options || coalesce(each[p.ord], '{}')) o (
        idempotency_key text, dedupe_key text, ordering_key text, depends_on uuid[])
      left join lateral unnest(o.depends_on) d on true;
    perform windlass.lock_keys(enqueue_many.tenant_id, keys.idempotency, keys.dedupe, keys.ordering, keys.needs);
  end if;
  return query
    select n.ord::integer, e.id, e.status, e.is_duplicate
      from (select p.ord, p.payload, o.* from unnest(payloads) with ordinality p (payload, ord)
             cross join lateral jsonb_to_record(options || coalesce(each[p.ord], '{}')) o (
               queue text, priority integer, scheduled_for timestamptz, delay interval, dedupe_key text, uniqueness jsonb,
               idempotency_key text, ordering_key text, depends_on uuid[], if_unmet text, subject_type text, subject_id text,
               tags text[], correlation_id text, source text, source_ref text, max_attempts integer, deadline timestamptz,
               parent_id uuid, created_by uuid, trace text)
             order by p.ord offset 0) n
      cross join lateral windlass.enqueue(enqueue_many.definition_key, n.payload, enqueue_many.tenant_id, n.queue, n.priority,
        n.scheduled_for, n.delay, n.dedupe_key, n.uniqueness, n.idempotency_key, n.ordering_key, n.depends_on, n.if_unmet,
        n.subject_type, n.subject_id, n.tags, n.correlation_id, coalesce(n.source, 'manual'), n.source_ref, n.max_attempts,
        n.deadline, n.parent_id, n.created_by, n.trace) e
     order by n.ord;
  if locks then
    perform windlass.unlock_keys(enqueue_many.tenant_id, keys.idempotency, keys.dedupe, keys.ordering);
  end if;
end
$$;
