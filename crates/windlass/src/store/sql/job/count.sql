-- Jobs of a tenant per queue, definition and status, from the counters: exact, and reads no job.
select c.tenant_id, c.queue, c.definition_id, d.key as definition_key, c.queued::bigint, c.running::bigint, c.scheduled::bigint,
       c.blocked::bigint, c.succeeded::bigint, c.failed::bigint, c.dead_letter::bigint, c.canceled::bigint,
       c.purged::bigint
  from windlass.job_counts c join windlass.job_definitions d on d.id = c.definition_id
 where c.tenant_id = $1
 order by c.queue, d.key
