-- Rows about jobs that have ended or do not exist, when no job is left.
select 'a dedupe key is still held by job ' || job_id from windlass.dedupe where released_at_end
union all
select 'a cancel request of job ' || job_id || ' is still open' from windlass.cancel_request
union all
-- A job of an ordering key that has failed or was canceled holds back its key until it is retried, so the dependencies on it are kept.
select 'job ' || d.job_id || ' still depends on job ' || d.needs_job_id from windlass.dependency d
 where not exists (select from windlass.history h where h.tenant_id = d.tenant_id and h.job_id = d.needs_job_id
                      and h.job_status <> windlass.state_code('succeeded'))
union all
select 'job ' || job_id || ' still has a lease' from windlass.pull_lease
union all
-- The deadline of an ended job is kept until it passes, and deleted by the keeper then.
select 'the deadline of job ' || job_id || ' has passed' from windlass.expiry where expires_at < clock_timestamp() - interval '30 s'
union all
select 'the history of job ' || h.job_id || ' has no job' from windlass.history h
 where not exists (select from windlass.job b where b.tenant_id = h.tenant_id and b.id = h.job_id)
union all
select 'a worker that has stopped still waits for jobs: ' || w.worker from windlass.waiting w
  join windlass.job_workers j on j.id = w.worker where j.stopped_at is not null
union all
select 'tenant ' || slug || ' is still being deleted' from windlass.tenants where status = 'deleting'
union all
select 'event ' || event_id || ' is not dispatched' from windlass.event_pending
