-- Ids of a tenant's jobs, newest first, by the columns of their bodies. Also by state, for filters that are narrower
-- than a state: that lookup is per row.
--
-- Index: job_pkey backwards, or job_by_subject, job_by_correlation, or job_pkey by the given ids. Planned for its
-- arguments each time (see scope.sql), so an absent filter costs nothing and prevents no index. A definition or a queue
-- has no index: a rare one is searched from the newest job on.
select b.id
  from windlass.job b
 where b.tenant_id = $1 and b.id < $2 and b.id >= $3
   and ($5::text is null and $6::text is null or b.lane in (
     select n.id from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id
      where n.tenant_id = $1 and ($5 is null or d.key = $5) and ($6 is null or n.queue = $6)))
   and ($7::timestamptz is null or b.created_at >= $7)
   and ($8::timestamptz is null or b.created_at < $8)
   and ($9::smallint is null or b.source = $9)
   and ($10::smallint is null or windlass.state_of(b.tenant_id, b.id) = windlass.state_name($10))
   and ($11::text is null or b.subject_type = $11)
   and ($12::text is null or b.subject_id = $12)
   and ($13::text is null or b.correlation_id = $13)
   and ($14::uuid[] is null or b.id = any ($14))
   and not ($15 and exists (select from windlass.running v
      where v.tenant_id = b.tenant_id and v.job_id = b.id and v.cancel_requested_at is not null))
 order by b.id desc
 limit $4
