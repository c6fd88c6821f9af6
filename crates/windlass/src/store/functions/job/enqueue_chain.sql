-- One job that a finishing job asked for: the named arguments of enqueue as JSON, in the parent's tenant and with the
-- parent's correlation unless it has its own. Runs inside the parent's settlement, so it commits with it or not at all.
-- The payload is taken by `->`, since a record makes NULL of JSON's null.
-- A refusal (a quota, an unknown definition) fails the whole settlement: the worker then writes the attempt as failed, with the
-- refusal as its error, so that a retry can still start what should follow.
create or replace function windlass.enqueue_chain(tenant uuid, parent uuid, link jsonb) returns void
language plpgsql
as $$
begin
  perform windlass.enqueue(n.definition_key, coalesce(link -> 'payload', '{}'), tenant, n.queue, n.priority, n.scheduled_for, n.delay,
      n.dedupe_key, n.uniqueness, n.idempotency_key, n.ordering_key, n.depends_on, n.if_unmet, n.subject_type, n.subject_id,
      n.tags, coalesce(n.correlation_id, b.correlation_id), coalesce(n.source, 'system'), n.source_ref, n.max_attempts,
      n.deadline, parent, n.created_by, coalesce(n.trace, b.trace), n.job_id)
    from jsonb_to_record(link) n (definition_key text, queue text, priority integer, scheduled_for timestamptz,
      delay interval, dedupe_key text, uniqueness jsonb, idempotency_key text, ordering_key text, depends_on uuid[], if_unmet text,
      subject_type text, subject_id text, tags text[], correlation_id text, source text, source_ref text, max_attempts integer,
      deadline timestamptz, created_by uuid, trace text, job_id uuid)
    join windlass.job b on b.tenant_id = tenant and b.id = parent;
end
$$;
