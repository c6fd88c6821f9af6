-- Jobs per tenant, queue, definition and status, from counters: exact, and it reads no job. Every tenant's if none is
-- named, as far as the caller's role may see them.
select c.tenant_id, c.queue, c.definition_id, d.key as definition_key, c.queued::bigint, c.running::bigint, c.scheduled::bigint,
       c.blocked::bigint, c.succeeded::bigint, c.failed::bigint, c.dead_letter::bigint, c.canceled::bigint,
       c.purged::bigint
  from windlass.job_counts c join windlass.job_definitions d on d.id = c.definition_id
 where $1::uuid is null or c.tenant_id = $1
 order by c.tenant_id, c.queue, d.key
