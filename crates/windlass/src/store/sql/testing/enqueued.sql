-- The jobs of one definition ($1) that have not ended, as the current transaction sees them, oldest first.
select j.id, j.tenant_id, j.status, j.payload::text, j.priority, j.queue, j.scheduled_for, j.dedupe_key, coalesce(j.tags, '{}')
  from windlass.jobs j
 where j.definition_key = $1 and j.status in ('queued', 'scheduled', 'blocked', 'running')
 order by j.queued_at, j.id
