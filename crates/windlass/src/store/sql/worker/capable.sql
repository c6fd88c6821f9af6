-- The live workers that have a handler for a definition ($1), with the queues that they serve; an empty list means all.
-- Reads all of job_workers: it has a row per process, not per job.
select w.worker_id, w.hostname, w.queues, windlass.is_draining(w.id) as is_draining
  from windlass.job_workers w
 where w.stopped_at is null and w.lease_expires_at > clock_timestamp() and $1 = any (w.definition_keys)
 order by w.worker_id
