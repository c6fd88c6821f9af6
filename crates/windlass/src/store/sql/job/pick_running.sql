-- Ids of a tenant's running jobs, newest first.
-- Index: live_pkey backwards. live is as small as the number of running jobs, so the other conditions are checked per
-- row.
select l.job_id
  from windlass.live l
 where l.tenant_id = $1 and l.job_id < $2 and l.job_id >= $3
   and ($5::text is null and $6::text is null or l.lane in (
     select n.id from windlass.lane n join windlass.job_definitions j on j.id = n.definition_id
      where n.tenant_id = $1 and ($5 is null or j.key = $5) and ($6 is null or n.queue = $6)))
   and ($7::timestamptz is null and $8::timestamptz is null and $9::smallint is null or exists (
     select from windlass.job b where b.tenant_id = l.tenant_id and b.id = l.job_id
        and ($7 is null or b.created_at >= $7) and ($8 is null or b.created_at < $8) and ($9 is null or b.source = $9)))
   and not ($10 and l.cancel_requested_at is not null)
 order by l.job_id desc
 limit $4
