-- The attempts of one job, oldest first, the one under way included.
-- Index: history_pkey and live_pkey.
select a.* from windlass.job_attempts a where a.tenant_id = $1 and a.job_id = $2 order by a.attempt_no
