-- Ids of a tenant's scheduled jobs, newest first.
-- Index: deferred_pkey backwards.
select d.job_id
  from windlass.deferred d
 where d.tenant_id = $1 and d.job_id < $2 and d.job_id >= $3
   and ($5::text is null and $6::text is null or d.lane in (
     select n.id from windlass.lane n join windlass.job_definitions j on j.id = n.definition_id
      where n.tenant_id = $1 and ($5 is null or j.key = $5) and ($6 is null or n.queue = $6)))
   and ($7::timestamptz is null and $8::timestamptz is null and $9::smallint is null or exists (
     select from windlass.job b where b.tenant_id = d.tenant_id and b.id = d.job_id
        and ($7 is null or b.created_at >= $7) and ($8 is null or b.created_at < $8) and ($9 is null or b.source = $9)))
 order by d.job_id desc
 limit $4
