-- The attempts of the newest jobs of some tenants that have ended, at most $2 per tenant: a sample whose cost does not
-- depend on the size of history.
-- Index: history_pkey backwards for each tenant; the body of each by its primary key.
select h.job_id, h.attempt, n.queue, d.key as definition_key, windlass.outcome_name(h.outcome) as outcome, h.started_at, h.finished_at,
       case when h.attempt = 1 then windlass.shown_instant(coalesce(b.scheduled_for, b.created_at)) end as ready_at
  from unnest($1::uuid[]) t (tenant_id)
 cross join lateral (
   select * from windlass.history h where h.tenant_id = t.tenant_id and h.attempt > 0 order by h.job_id desc, h.attempt desc limit $2) h
  join windlass.job b on b.tenant_id = h.tenant_id and b.id = h.job_id
  join windlass.lane n on n.tenant_id = h.tenant_id and n.id = h.lane
  join windlass.job_definitions d on d.id = n.definition_id
 order by h.finished_at
