-- The creation times of these jobs.
-- Index: job_pkey.
select b.id, b.created_at from windlass.job b where b.tenant_id = $1 and b.id = any ($2)
