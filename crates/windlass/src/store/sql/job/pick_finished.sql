-- Ids of a tenant's jobs that ended in one status, newest first.
-- Index: history_by_status backwards, in every partition; it contains only the rows that ended a job.
select h.job_id
  from windlass.history h
 where h.tenant_id = $1 and h.job_status = $10::smallint and h.job_id < $2 and h.job_id >= $3
   and ($5::text is null and $6::text is null or h.lane in (
     select n.id from windlass.lane n join windlass.job_definitions j on j.id = n.definition_id
      where n.tenant_id = $1 and ($5 is null or j.key = $5) and ($6 is null or n.queue = $6)))
   and ($7::timestamptz is null and $8::timestamptz is null and $9::smallint is null or exists (
     select from windlass.job b where b.tenant_id = h.tenant_id and b.id = h.job_id
        and ($7 is null or b.created_at >= $7) and ($8 is null or b.created_at < $8) and ($9 is null or b.source = $9)))
 order by h.job_id desc
 limit $4
