-- Sets the start deadlines of new jobs that were enqueued through a lane. The library enqueues jobs of a definition with a
-- start deadline by enqueue, but an application can pass any lane, and a route that the library has cached is a few
-- seconds old. Most installations have no such definition, and the jobs are then not read.
-- No SET clause and only qualified names, as in enqueue_routed.
create or replace function windlass.set_start_deadlines(tenants uuid[], jobs uuid[], lanes integer[]) returns void
language plpgsql
set jit = off
as $$
#variable_conflict use_column
begin
  if not exists (select from windlass.job_definitions d where d.start_deadline_seconds is not null) then
    return;
  end if;
  with late as materialized (
    select n.tenant, n.job, pg_catalog.statement_timestamp()
           operator(pg_catalog.+) pg_catalog.make_interval(secs => d.start_deadline_seconds) as start_by
      from rows from (pg_catalog.unnest(tenants), pg_catalog.unnest(jobs), pg_catalog.unnest(lanes)) n (tenant, job, lane)
      join windlass.lane l on l.id operator(pg_catalog.=) n.lane
      join windlass.job_definitions d on d.id operator(pg_catalog.=) l.definition_id
     where d.start_deadline_seconds is not null),
  bodies as (
    update windlass.job b set start_by = l.start_by from late l
     where b.tenant_id operator(pg_catalog.=) l.tenant and b.id operator(pg_catalog.=) l.job)
  insert into windlass.expiry (tenant_id, job_id, expires_at, only_unstarted)
    select l.tenant, l.job, l.start_by, true from late l;
end
$$;
