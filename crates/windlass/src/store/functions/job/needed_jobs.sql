-- Those of these finished jobs that a blocked job waits for, and those that another transaction has locked: it may
-- enqueue under one of their keys, or be about to wait for one. The other jobs stay locked, so that no enqueue starts
-- to wait for one of them before the caller deletes it.
-- Lock order: dedupe rows, ordering rows, bodies, as in an enqueue, skipping locked ones.
create or replace function windlass.needed_jobs(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  needed uuid[];
begin
  with mine as materialized (
    select d.dedupe_key from windlass.dedupe d where d.tenant_id = tenant and d.job_id = any (jobs) order by d.dedupe_key
           for update skip locked)
  select array_agg(d.job_id) into needed from windlass.dedupe d
   where d.tenant_id = tenant and d.job_id = any (jobs) and d.dedupe_key not in (select m.dedupe_key from mine m);
  with last as materialized (
    select o.ordering_key, o.last_job_id from windlass.ordering o
     where o.tenant_id = tenant and o.last_job_id = any (jobs)
       and o.ordering_key in (select b.ordering_key from windlass.job b where b.tenant_id = tenant and b.id = any (jobs))),
  mine as materialized (
    select o.ordering_key from windlass.ordering o where o.tenant_id = tenant and o.ordering_key in (select l.ordering_key from last l)
     order by o.ordering_key for update skip locked)
  select needed || array_agg(l.last_job_id) into needed from last l where l.ordering_key not in (select m.ordering_key from mine m);
  with mine as materialized (
    select b.id from windlass.job b where b.tenant_id = tenant and b.id = any (jobs) order by b.id for update skip locked)
  select needed || array_agg(b.id) into needed from windlass.job b
   where b.tenant_id = tenant and b.id = any (jobs) and b.id not in (select m.id from mine m);
  return array(
    select n from unnest(needed) n
    union
    select d.needs_job_id from windlass.dependency d
      join windlass.blocked b on b.tenant_id = d.tenant_id and b.job_id = d.job_id
     where d.tenant_id = tenant and d.needs_job_id = any (jobs));
end
$$;
