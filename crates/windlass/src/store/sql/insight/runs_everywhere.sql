-- Some of the attempts that ended in the last minutes, of every tenant: any $1 of them. For those who may see all.
-- Index: history_by_time (BRIN), left as soon as there are enough; bodies by their primary key.
select h.job_id, h.attempt, n.queue, d.key as definition_key, windlass.outcome_name(h.outcome) as outcome, h.started_at, h.finished_at,
       case when h.attempt = 1 then coalesce(b.scheduled_for, b.created_at) end as ready_at
  from (select * from windlass.history h where h.finished_at >= now() - interval '15 minutes' and h.attempt > 0 limit $1) h
  join windlass.job b on b.tenant_id = h.tenant_id and b.id = h.job_id
  join windlass.lane n on n.tenant_id = h.tenant_id and n.id = h.lane
  join windlass.job_definitions d on d.id = n.definition_id
 order by h.finished_at
