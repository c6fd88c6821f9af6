-- Jobs per lane of every tenant that the caller's role may see, from the counters: exact, and reads no job. One tenant,
-- queue and definition may have several lanes; the caller sums them, which for ten thousand tenants is faster than
-- grouping here.
-- Trap: joined lane by lane, it reached the statement timeout, so all_counts enables the hash join.
with fresh as (
  select y.tenant_id, y.lane, sum(y.queued) as queued, sum(y.running) as running, sum(y.scheduled) as scheduled, sum(y.blocked) as blocked,
         sum(y.succeeded) as succeeded, sum(y.failed) as failed, sum(y.dead_letter) as dead_letter, sum(y.canceled) as canceled,
         sum(y.purged) as purged
    from windlass.tally y group by y.tenant_id, y.lane),
lane as materialized (
  select n.tenant_id, n.id, n.queue, n.definition_id, d.key
    from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id)
select n.tenant_id, n.queue, n.definition_id, n.key as definition_key,
       coalesce(t.queued, 0) + coalesce(y.queued, 0) as queued, coalesce(t.running, 0) + coalesce(y.running, 0) as running,
       coalesce(t.scheduled, 0) + coalesce(y.scheduled, 0) as scheduled, coalesce(t.blocked, 0) + coalesce(y.blocked, 0) as blocked,
       coalesce(t.succeeded, 0) + coalesce(y.succeeded, 0) as succeeded, coalesce(t.failed, 0) + coalesce(y.failed, 0) as failed,
       coalesce(t.dead_letter, 0) + coalesce(y.dead_letter, 0) as dead_letter,
       coalesce(t.canceled, 0) + coalesce(y.canceled, 0) as canceled, coalesce(t.purged, 0) + coalesce(y.purged, 0) as purged
  from windlass.total t
  full join fresh y on y.tenant_id = t.tenant_id and y.lane = t.lane
  join lane n on n.id = coalesce(t.lane, y.lane) and n.tenant_id = coalesce(t.tenant_id, y.tenant_id)
