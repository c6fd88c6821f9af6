-- The state of one job, or null if it does not exist. Reads the tables of unfinished jobs before history.
create or replace function windlass.state_of(tenant uuid, job uuid) returns text
language sql stable
as $$
  select coalesce(
    (select 'running' from windlass.running r where r.tenant_id = tenant and r.job_id = job),
    (select 'queued' from windlass.queued s where s.tenant_id = tenant and s.job_id = job),
    (select 'scheduled' from windlass.deferred d where d.tenant_id = tenant and d.job_id = job),
    (select 'blocked' from windlass.blocked b where b.tenant_id = tenant and b.job_id = job),
    (select windlass.state_name(h.job_status) from windlass.history h
      where h.tenant_id = tenant and h.job_id = job and h.job_status is not null))
$$;

-- The states of several jobs, in order; a deleted one counts as canceled. One call each, planned for its values: in the
-- generic plan of a larger statement, which opens every partition, the same lookup takes 0.35 ms instead of 0.03.
create or replace function windlass.states_of(tenant uuid, jobs uuid[]) returns text[]
language plpgsql
set plan_cache_mode = auto
set enable_seqscan = on
as $$
declare
  job uuid;
  states text[] := '{}';
begin
  foreach job in array coalesce(jobs, '{}') loop
    states := states || coalesce(windlass.state_of(tenant, job), 'canceled');
  end loop;
  return states;
end
$$;
