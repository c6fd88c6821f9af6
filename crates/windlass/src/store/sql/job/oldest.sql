-- Since when the tenant's oldest queued job could have run, of each of its lanes; every tenant's if none is named. Looks at the
-- head of each line alone.
-- Index: lane_pkey, line_pkey, job_pkey.
select n.tenant_id, n.queue, min(coalesce(b.scheduled_for, b.created_at)) as since
  from windlass.lane n
 cross join lateral (select l.ids[1] as job_id from windlass.line l where l.lane = n.id order by l.seq limit 1) h
  join windlass.job b on b.tenant_id = n.tenant_id and b.id = h.job_id
 where $1::uuid is null or n.tenant_id = $1
 group by n.tenant_id, n.queue
