-- The number of jobs of these definitions ($1) that are queued, running, or scheduled for a past instant. Reads every
-- job that has not ended, so it is only for test databases.
select coalesce(sum(w.jobs), 0)::bigint
  from windlass.lane n
  join windlass.job_definitions j on j.id = n.definition_id
  cross join lateral (
    select cardinality(i.ids) as jobs from windlass.line i where i.lane = n.id and i.tenant_id = n.tenant_id
    union all
    select cardinality(l.ids) - bit_count(l.ended::bit(64)) from windlass.live l where l.lane = n.id and l.tenant_id = n.tenant_id
    union all
    select 1 from windlass.deferred d where d.lane = n.id and d.tenant_id = n.tenant_id and d.due_at <= clock_timestamp()) w
 where j.key = any ($1)
