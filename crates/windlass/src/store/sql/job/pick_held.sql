-- Ids of a tenant's jobs that one worker is running, in the order of pick_running.sql.
-- Index: live_pkey backwards, for each lane of the tenant, until a page of the worker's jobs is found: the blocks of other
-- workers in between are read too.
select j.id, j.place
  from windlass.lane n
 cross join lateral (
   select l.ids[i.ord] as id, l.seq + i.ord - 1 as place
     from windlass.live l cross join lateral generate_series(cardinality(l.ids), 1, -1) i (ord)
    where l.tenant_id = $1 and l.lane = n.id and l.seq < $6::bigint and l.seq + i.ord - 1 < $6
      and l.ids[i.ord] < $2 and l.ids[i.ord] >= $3 and (l.ended >> (i.ord - 1)) & 1 = 0
      and l.worker = (select w.id from windlass.job_workers w where w.worker_id = $5)
      and not ($7 and l.cancel_requested_at[i.ord] is not null)
    order by l.seq desc
    limit $4) j
 where n.tenant_id = $1
 order by j.place desc
 limit $4
