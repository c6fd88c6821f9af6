-- Ids of a tenant's jobs that one worker holds at this moment, newest first.
-- Index: live_pkey backwards; live rows are as few as the work in flight.
select l.job_id
  from windlass.live l join windlass.job_workers w on w.id = l.worker
 where l.tenant_id = $1 and l.job_id < $2 and l.job_id >= $3 and w.worker_id = $5
 order by l.job_id desc
 limit $4
