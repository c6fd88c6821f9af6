-- The state of one job, or null if there is none. Looks where the work in flight is before it looks in history.
create or replace function windlass.state_of(tenant uuid, job uuid) returns text
language sql stable
as $$
  select coalesce(
    (select 'running' from windlass.live l where l.tenant_id = tenant and l.job_id = job),
    (select 'queued' from windlass.standing s where s.tenant_id = tenant and s.job_id = job),
    (select 'scheduled' from windlass.deferred d where d.tenant_id = tenant and d.job_id = job),
    (select 'blocked' from windlass.blocked b where b.tenant_id = tenant and b.job_id = job),
    (select windlass.state_name(h.job_status) from windlass.history h
      where h.tenant_id = tenant and h.job_id = job and h.job_status is not null))
$$;
