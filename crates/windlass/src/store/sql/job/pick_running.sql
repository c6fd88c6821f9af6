-- Ids of a tenant's running jobs, each with its position, the highest first: about the last enqueued ones. Positions are
-- those of the queue (see claim.sql), so no two jobs have the same one, and a list can continue from any of them.
-- Index: live_pkey backwards, for each lane of the tenant, as in pick_queued.sql: at most a page of each is read and
-- merged, however many jobs are running.
select j.id, j.place
  from windlass.lane n
  join windlass.job_definitions d on d.id = n.definition_id
 cross join lateral (
   select l.ids[i.ord] as id, l.seq + i.ord - 1 as place
     from windlass.live l cross join lateral generate_series(cardinality(l.ids), 1, -1) i (ord)
    where l.tenant_id = $1 and l.lane = n.id and l.seq < $10::bigint and l.seq + i.ord - 1 < $10
      and l.ids[i.ord] < $2 and l.ids[i.ord] >= $3 and (l.ended >> (i.ord - 1)) & 1 = 0
      and not ($11 and l.cancel_requested_at[i.ord] is not null)
      and ($7::timestamptz is null and $8::timestamptz is null and $9::smallint is null or exists (
        select from windlass.job b where b.tenant_id = l.tenant_id and b.id = l.ids[i.ord]
           and ($7 is null or b.created_at >= $7) and ($8 is null or b.created_at < $8) and ($9 is null or b.source = $9)))
    order by l.seq desc
    limit $4) j
 where n.tenant_id = $1 and ($5::text is null or d.key = $5) and ($6::text is null or n.queue = $6)
 order by j.place desc
 limit $4
