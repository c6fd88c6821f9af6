-- The creation time of a job.
-- Index: job_pkey.
select b.created_at from windlass.job b where b.tenant_id = $1 and b.id = $2
