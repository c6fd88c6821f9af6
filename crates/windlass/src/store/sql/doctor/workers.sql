-- Live workers, and workers that missed their heartbeats in the last day without deregistering.
select w.worker_id, extract(epoch from clock_timestamp() - w.last_seen_at)::bigint as silent_seconds, w.running_count,
       w.stopped_at is null and w.lease_expires_at > clock_timestamp() as is_alive
  from windlass.job_workers w
 where w.ended is distinct from 'stopped' and w.last_seen_at > clock_timestamp() - interval '1 day'
 order by w.last_seen_at
