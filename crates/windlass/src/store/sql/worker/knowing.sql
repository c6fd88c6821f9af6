-- The live workers that run jobs of a definition ($1), with the queues they serve; an empty list serves all.
-- Reads job_workers whole: it has a row per process, not per job.
select w.worker_id, w.hostname, w.queues, w.is_quiet
  from windlass.job_workers w
 where w.stopped_at is null and w.lease_expires_at > clock_timestamp() and $1 = any (w.definition_keys)
 order by w.worker_id
