-- Ids of a tenant's queued jobs, last in the queue first, each with its position.
-- Index: line's primary key backwards, for each lane of the tenant: at most a page of each is read and merged. The jobs
-- of a row are enumerated from its last one instead of sorted, or the planner would read and sort whole lanes.
select j.id, j.place
  from windlass.lane n
  join windlass.job_definitions d on d.id = n.definition_id
 cross join lateral (
   select l.ids[i.ord] as id, l.seq + coalesce(l.offsets[i.ord], l.taken + i.ord - 1) as place
     from windlass.line l cross join lateral generate_series(cardinality(l.ids), 1, -1) i (ord)
    where l.lane = n.id and l.tenant_id = $1 and l.seq < $10::bigint and l.seq + coalesce(l.offsets[i.ord], l.taken + i.ord - 1) < $10
      and l.ids[i.ord] < $2 and l.ids[i.ord] >= $3
      and ($7::timestamptz is null and $8::timestamptz is null and $9::smallint is null or exists (
        select from windlass.job b where b.tenant_id = l.tenant_id and b.id = l.ids[i.ord]
           and ($7 is null or b.created_at >= $7) and ($8 is null or b.created_at < $8) and ($9 is null or b.source = $9)))
    order by l.seq desc
    limit $4) j
 where n.tenant_id = $1 and ($5::text is null or d.key = $5) and ($6::text is null or n.queue = $6)
 order by j.place desc
 limit $4
