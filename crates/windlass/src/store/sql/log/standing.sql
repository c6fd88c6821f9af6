-- Whether a job exists, and whether it has ended, so that its log no longer grows.
-- Index: job_pkey, history_pkey.
select exists (select from windlass.job b where b.tenant_id = $1 and b.id = $2) as is_known,
       exists (select from windlass.history h where h.tenant_id = $1 and h.job_id = $2 and h.job_status is not null) as is_over
