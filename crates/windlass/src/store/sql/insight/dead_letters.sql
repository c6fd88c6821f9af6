-- A tenant's newest dead letters with their errors.
-- Index: history_by_status backwards.
select h.job_id, d.key as definition_key, h.finished_at, h.attempt, h.reason, left(h.error_text, 1000) as error_text
  from windlass.history h
  join windlass.lane n on n.tenant_id = h.tenant_id and n.id = h.lane
  join windlass.job_definitions d on d.id = n.definition_id
 where h.tenant_id = $1 and h.job_status = windlass.state_code('dead_letter')
 order by h.job_id desc
 limit $2
