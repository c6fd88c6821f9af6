-- Since when the oldest queued job of each queue could have run, for one tenant, or for all if none is given. Reads
-- only the head of each lane. For all tenants it steps from one lane with jobs to the next, and skips empty ones.
-- Index: lane_by_id, line_pkey, job_pkey. Trap: with a join instead of a lookup, all bodies of a tenant would be read.
with recursive head (lane, job_id) as (
  (select l.lane, l.ids[1] from windlass.line l where $1::uuid is null order by l.lane, l.seq limit 1)
  union all
  select s.* from head h
   cross join lateral (select l.lane, l.ids[1] from windlass.line l where l.lane > h.lane order by l.lane, l.seq limit 1) s),
heads as (
  select h.lane, h.job_id from head h
  union all
  select n.id, s.job_id from windlass.lane n
   cross join lateral (select l.ids[1] as job_id from windlass.line l where l.lane = n.id order by l.seq limit 1) s
   where n.tenant_id = $1),
waits as materialized (
  select n.tenant_id, n.queue, (select windlass.shown_instant(coalesce(b.scheduled_for, b.created_at)) from windlass.job b
                                 where b.tenant_id = n.tenant_id and b.id = h.job_id) as since
    from heads h join windlass.lane n on n.id = h.lane)
select w.tenant_id, w.queue, min(w.since) as since from waits w where w.since is not null group by w.tenant_id, w.queue
