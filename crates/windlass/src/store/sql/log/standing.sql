-- Whether there is such a job, and whether it has ended: then its log will not grow.
-- Index: job_pkey, history_pkey.
select exists (select from windlass.job b where b.tenant_id = $1 and b.id = $2) as is_known,
       exists (select from windlass.history h where h.tenant_id = $1 and h.job_id = $2 and h.job_status is not null) as is_over
