-- Ids of a tenant's jobs that one worker is running, newest first.
-- Index: live_pkey backwards; live is as small as the number of running jobs.
select l.job_id
  from windlass.live l join windlass.job_workers w on w.id = l.worker
 where l.tenant_id = $1 and l.job_id < $2 and l.job_id >= $3 and w.worker_id = $5
   and not ($6 and l.cancel_requested_at is not null)
 order by l.job_id desc
 limit $4
