-- Ids of a tenant's jobs that one worker is running, newest first.
-- Index: live_pkey, all blocks of the tenant; live is as small as the number of running jobs.
select i.id
  from windlass.live l join windlass.job_workers w on w.id = l.worker
  cross join lateral unnest(l.ids) with ordinality i (id, ord)
 where l.tenant_id = $1 and i.id < $2 and i.id >= $3 and (l.ended >> (i.ord::integer - 1)) & 1 = 0 and w.worker_id = $5
   and not ($6 and l.cancel_requested_at[i.ord] is not null)
 order by i.id desc
 limit $4
