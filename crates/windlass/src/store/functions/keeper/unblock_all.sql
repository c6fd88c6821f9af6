-- Releases what a missed hand-over left waiting: a job that ended between the look and the write of the one that
-- waits for it. The settlement does it at once in every other case, so this usually finds nothing.
create or replace function windlass.unblock_all(most integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  open record;
  found_some integer := 0;
begin
  for open in
    select n.tenant_id, array_agg(n.needs_job_id) as needs from (
      select distinct d.tenant_id, d.needs_job_id from windlass.dependency d
       cross join lateral (select windlass.state_of(d.tenant_id, d.needs_job_id) as state) s
       where s.state is null or s.state in ('succeeded', 'canceled')
          or (s.state in ('failed', 'dead_letter') and d.if_unmet <> 'wait')
       limit most) n group by n.tenant_id
  loop
    perform windlass.unblock(open.tenant_id, open.needs);
    found_some := found_some + cardinality(open.needs);
  end loop;
  -- A retry may have read what its job waits for just before that was met.
  for open in
    select w.tenant_id, array_agg(w.job_id) as jobs from (
      select b.tenant_id, b.job_id from windlass.blocked b
       where not exists (select from windlass.dependency d where d.tenant_id = b.tenant_id and d.job_id = b.job_id)
       limit most) w group by w.tenant_id
  loop
    perform windlass.start_unblocked(open.tenant_id, open.jobs);
    found_some := found_some + cardinality(open.jobs);
  end loop;
  return found_some;
end
$$;
