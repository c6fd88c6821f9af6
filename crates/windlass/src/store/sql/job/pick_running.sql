-- Ids of a tenant's running jobs, newest first.
-- Index: live_pkey, all blocks of the tenant. live is as small as the number of running jobs, so the other conditions are
-- checked per job.
select i.id
  from windlass.live l cross join lateral unnest(l.ids) with ordinality i (id, ord)
 where l.tenant_id = $1 and i.id < $2 and i.id >= $3 and (l.ended >> (i.ord::integer - 1)) & 1 = 0
   and ($5::text is null and $6::text is null or l.lane in (
     select n.id from windlass.lane n join windlass.job_definitions j on j.id = n.definition_id
      where n.tenant_id = $1 and ($5 is null or j.key = $5) and ($6 is null or n.queue = $6)))
   and ($7::timestamptz is null and $8::timestamptz is null and $9::smallint is null or exists (
     select from windlass.job b where b.tenant_id = l.tenant_id and b.id = i.id
        and ($7 is null or b.created_at >= $7) and ($8 is null or b.created_at < $8) and ($9 is null or b.source = $9)))
   and not ($10 and l.cancel_requested_at[i.ord] is not null)
 order by i.id desc
 limit $4
