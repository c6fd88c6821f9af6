-- Since when each of these jobs is there.
-- Index: job_pkey.
select b.id, b.created_at from windlass.job b where b.tenant_id = $1 and b.id = any ($2)
