-- The jobs that have not ended: queued, running, scheduled and blocked ones. For retention, which must not delete them;
-- reads every row of these tables, and no body.
create or replace function windlass.unfinished() returns table (tenant_id uuid, job_id uuid)
language sql stable
as $$
  select l.tenant_id, unnest(l.ids) from windlass.line l
  union all select l.tenant_id, r.job_id from windlass.live l cross join lateral windlass.running_of(l.ids, l.ended) r
  union all select d.tenant_id, d.job_id from windlass.deferred d
  union all select b.tenant_id, b.job_id from windlass.blocked b
$$;
