-- Enqueues one job that a finishing job requested: the named arguments of enqueue as JSON, in the parent's tenant, with
-- the parent's correlation id unless it has its own. Runs in the parent's settlement, so both commit or neither. A
-- refusal (a quota, an unknown definition) fails the whole settlement: the worker then settles the attempt as failed,
-- with the refusal as its error, so that a retry can still enqueue the job.
-- Trap: the payload is read with `->`, because a record converts JSON null to NULL.
create or replace function windlass.enqueue_chain(tenant uuid, parent uuid, link jsonb) returns void
language plpgsql
set jit = off
as $$
begin
  perform windlass.enqueue(n.definition_key, coalesce(link -> 'payload', '{}'), tenant, n.queue, n.priority, n.scheduled_for, n.delay,
      n.dedupe_key, n.uniqueness, n.idempotency_key, n.ordering_key, n.depends_on, n.if_unmet, n.subject_type, n.subject_id,
      n.tags, coalesce(n.correlation_id, b.correlation_id), coalesce(n.source, 'system'), n.source_ref, n.max_attempts,
      n.deadline, parent, n.created_by, coalesce(n.trace, case when windlass.is_traceparent(b.trace) then b.trace end), n.job_id)
    from jsonb_to_record(link) n (definition_key text, queue text, priority integer, scheduled_for timestamptz,
      delay interval, dedupe_key text, uniqueness jsonb, idempotency_key text, ordering_key text, depends_on uuid[], if_unmet text,
      subject_type text, subject_id text, tags text[], correlation_id text, source text, source_ref text, max_attempts integer,
      deadline timestamptz, created_by uuid, trace text, job_id uuid)
    join windlass.job b on b.tenant_id = tenant and b.id = parent;
end
$$;

-- The same for the finished jobs `ords` of a settlement.
-- Lock order: the keys of all chained jobs first, tenant by tenant (see lock_keys), if there are several.
create or replace function windlass.enqueue_chains(tenants uuid[], jobs uuid[], details jsonb[], ords integer[]) returns void
language plpgsql
as $$
declare
  chained record;
begin
  if exists (select from unnest(details) d where jsonb_array_length(d -> 'chain') > 1000) then
    raise exception 'a job can enqueue at most 1000 next jobs' using errcode = 'WL007', column = 'next';
  end if;
  if exists (select from unnest(details) d
              where (select sum(jsonb_array_length(nullif(l -> 'depends_on', 'null'))) from jsonb_array_elements(d -> 'chain') l) > 5000)
  then
    raise exception 'the next jobs of a job can have at most 5000 dependencies together' using errcode = 'WL007', column = 'next';
  end if;
  for chained in
    select tenants[o.ord] as tenant, array_agg(k.idempotency_key) as idempotency, array_agg(k.dedupe_key) as dedupe,
           array_agg(k.ordering_key) as ordering, array_agg(d) filter (where d is not null) as needs
      from unnest(ords) o (ord) cross join lateral jsonb_array_elements(details[o.ord] -> 'chain') link
      cross join lateral jsonb_to_record(link) k (idempotency_key text, dedupe_key text, ordering_key text, depends_on uuid[])
      left join lateral unnest(k.depends_on) d on true
     where num_nonnulls(k.idempotency_key, k.dedupe_key, k.ordering_key, d) > 0
     group by 1 having count(*) > 1 order by 1
  loop
    perform windlass.lock_keys(chained.tenant, chained.idempotency, chained.dedupe, chained.ordering, chained.needs);
  end loop;
  perform windlass.enqueue_chain(tenants[o.ord], jobs[o.ord], link)
     from unnest(ords) o (ord) cross join lateral jsonb_array_elements(details[o.ord] -> 'chain') link;
  for chained in
    select tenants[o.ord] as tenant, array_agg(k.idempotency_key) as idempotency, array_agg(k.dedupe_key) as dedupe,
           array_agg(k.ordering_key) as ordering
      from unnest(ords) o (ord) cross join lateral jsonb_array_elements(details[o.ord] -> 'chain') link
      cross join lateral jsonb_to_record(link) k (idempotency_key text, dedupe_key text, ordering_key text)
     where num_nonnulls(k.idempotency_key, k.dedupe_key, k.ordering_key) > 0
     group by 1 having count(*) > 1
  loop
    perform windlass.unlock_keys(chained.tenant, chained.idempotency, chained.dedupe, chained.ordering);
  end loop;
end
$$;
