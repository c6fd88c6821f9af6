-- The creation times of these jobs, and the keys of their definitions: the job that holds a dedupe key may have another
-- definition than the one that was to be enqueued.
-- Index: job_pkey, lane_pkey, job_definitions_pkey.
select b.id, b.created_at, d.key
  from windlass.job b
  join windlass.lane n on n.id = b.lane
  join windlass.job_definitions d on d.id = n.definition_id
 where b.tenant_id = $1 and b.id = any ($2)
