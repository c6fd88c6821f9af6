-- The jobs that have not ended: queued, running, scheduled and blocked ones. For retention, which must not delete them;
-- reads every row of these tables.
select windlass.keep_view('unfinished', $view$
select l.tenant_id, unnest(l.ids) as job_id from windlass.line l
union all select l.tenant_id, l.job_id from windlass.live l
union all select d.tenant_id, d.job_id from windlass.deferred d
union all select b.tenant_id, b.job_id from windlass.blocked b$view$);
