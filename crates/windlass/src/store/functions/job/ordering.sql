-- Whether two jobs have the same ordering key, so that one waits for the other. False if one of them was deleted, so a
-- dependency has this in its column is_ordering; it is null in rows of earlier builds.
create or replace function windlass.share_ordering_key(tenant uuid, one uuid, other uuid) returns boolean
language plpgsql stable
set plan_cache_mode = force_custom_plan
set jit = off
as $$
#variable_conflict use_column
begin
  return exists (select from windlass.job a join windlass.job b on b.tenant_id = a.tenant_id and b.ordering_key = a.ordering_key
                  where a.tenant_id = tenant and a.id = one and b.id = other);
end
$$;

-- Whether the next job of its ordering key must wait for this one: it has not ended, or it ended before a job that it
-- waited for.
create or replace function windlass.holds_ordering_key(tenant uuid, job uuid) returns boolean
language sql stable
as $$
  select windlass.has_ended(windlass.state_code(windlass.state_of(tenant, job))) is false
      or exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = job)
$$;

-- Locks and returns the jobs that wait for these, directly or through others, whether or not they have ended: the
-- dependency of an ended job is passed on (see unblock). Their blocked rows and dependencies are locked, because an
-- unblock deletes a dependency before its commit, and a fixed snapshot shows one that was deleted long ago; a retry that
-- counts on such a dependency runs beside the job that waited. The former waits here and reads again; the latter fails
-- (40001). Ends when a read finds nothing that the previous one has not locked.
-- The cost depends on their number; most jobs have none. The caller holds the gate `circle`: two retries that do not see
-- each other's new dependency could create a cycle.
-- Lock order: blocked rows by id, then dependencies by key, as in unblock.
-- Index: the primary keys, from one job to the next. With the planner's choice, each of these steps read all dependencies: 3,000 jobs
-- behind one took seconds.
create or replace function windlass.lock_behind(tenant uuid, jobs uuid[]) returns uuid[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  links record;
  locked record;
begin
  loop
    with recursive behind (needs_job_id, job_id) as (
      select d.needs_job_id, d.job_id from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (jobs)
      union
      select d.needs_job_id, d.job_id from behind b join windlass.dependency d on d.tenant_id = tenant and d.needs_job_id = b.job_id)
    select array_agg(b.needs_job_id order by b.needs_job_id, b.job_id) as needs,
           array_agg(b.job_id order by b.needs_job_id, b.job_id) as jobs
      into links from behind b;
    if links.jobs is null then
      return '{}';
    end if;
    exit when links = locked;
    perform from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (links.jobs) order by b.job_id for update;
    perform from unnest(links.needs, links.jobs) l (need, job)
      cross join lateral (select from windlass.dependency d
        where d.tenant_id = tenant and d.needs_job_id = l.need and d.job_id = l.job for key share) d;
    locked := links;
  end loop;
  return links.jobs;
end
$$;

-- The jobs of its ordering key that a retried job must wait for, given those that wait for it (`behind`): the last job
-- of the key, or, if that one waits for the job itself or was purged, the jobs before it in the key.
-- Index: as above. `behind` is compared as a set: as an array, every step would compare all of them.
create or replace function windlass.places_before(tenant uuid, job uuid, last_of_key uuid, behind uuid[]) returns table (job_id uuid)
language sql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_bitmapscan = off
set jit = off
as $$
  with recursive chain (job_id) as (
    select last_of_key
    union
    select d.needs_job_id from chain c join windlass.dependency d on d.tenant_id = tenant and d.job_id = c.job_id
     where c.job_id in (select unnest(behind)) or not exists (select from windlass.job b where b.tenant_id = tenant and b.id = c.job_id))
  select c.job_id from chain c
   where c.job_id not in (select unnest(behind)) and c.job_id <> job
     and windlass.share_ordering_key(tenant, c.job_id, job) and windlass.holds_ordering_key(tenant, c.job_id)
$$;

drop function if exists windlass.waiting_behind(uuid, uuid); -- of earlier builds
