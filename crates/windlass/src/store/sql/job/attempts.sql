-- The attempts of one job after number $3, oldest first, including a running one; at most $4.
-- Index: history_pkey and live_pkey.
select a.* from windlass.job_attempts a where a.tenant_id = $1 and a.job_id = $2 and a.attempt_no > $3 order by a.attempt_no limit $4
