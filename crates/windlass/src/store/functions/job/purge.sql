-- Deletes jobs whole, in whatever state: bodies, history, places in line, keys. A run that is under way loses its lease.
-- Counters follow. keep_promises leaves the keys that are promised for ever or for a window that is open, as retention
-- must. Returns how many bodies went. Callers pass batches, so no transaction is long.
create or replace function windlass.purge(tenant uuid, jobs uuid[], keep_promises boolean default false) returns integer
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
  purged integer;
  needed uuid[];
  ordering_keys text[];
  held uuid[];
begin
  perform windlass.tenant_for(tenant);
  perform pg_advisory_xact_lock_shared(hashtext('windlass.hold')); -- a hold that is being placed comes first
  held := windlass.held_jobs(tenant, jobs);
  if held <> '{}' then
    raise exception 'job % is under legal hold', held[1] using errcode = 'WL020', detail = held[1]::text;
  end if;
  perform windlass.stay_durable();
  -- A job that somebody moves while we delete is at its new place in our next look.
  loop
    with from_line as materialized (select l.lane, 5 as state from windlass.leave_line(tenant, jobs) l),
    from_live as (delete from windlass.live l where l.tenant_id = tenant and l.job_id = any (jobs) returning l.lane, 6 as state),
    from_time as (delete from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs) returning d.lane, 7 as state),
    from_jobs as (delete from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs) returning b.lane, 8 as state),
    from_history as (delete from windlass.history h where h.tenant_id = tenant and h.job_id = any (jobs) returning h.lane, h.job_status as state),
    gone as (select * from from_line union all select * from from_live union all select * from from_time union all select * from from_jobs
             union all select * from from_history where state is not null)
    insert into windlass.tally (tenant_id, lane, queued, running, scheduled, blocked, succeeded, failed, dead_letter, canceled, purged)
      select tenant, g.lane, -count(*) filter (where g.state = 5), -count(*) filter (where g.state = 6), -count(*) filter (where g.state = 7),
             -count(*) filter (where g.state = 8), -count(*) filter (where g.state = 1), -count(*) filter (where g.state = 2),
             -count(*) filter (where g.state = 3), -count(*) filter (where g.state = 4), count(*)
        from gone g group by g.lane;
    exit when not exists (
      select from windlass.standing s where s.tenant_id = tenant and s.job_id = any (jobs)
      union all select from windlass.live l where l.tenant_id = tenant and l.job_id = any (jobs)
      union all select from windlass.deferred d where d.tenant_id = tenant and d.job_id = any (jobs)
      union all select from windlass.blocked b where b.tenant_id = tenant and b.job_id = any (jobs)
      union all select from windlass.history h where h.tenant_id = tenant and h.job_id = any (jobs));
  end loop;
  needed := array(select distinct d.needs_job_id from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = any (jobs));
  with unkeyed as (delete from windlass.dedupe d where d.tenant_id = tenant and d.job_id = any (jobs)
      and (d.until <= clock_timestamp() or not keep_promises)),
  unwaited as (delete from windlass.dependency d where d.tenant_id = tenant and d.job_id = any (jobs)
      and not windlass.share_ordering_key(tenant, d.needs_job_id, d.job_id)),
  unexpiring as (delete from windlass.expiry e where e.tenant_id = tenant and e.job_id = any (jobs)),
  uncleaned as (delete from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = any (jobs)),
  unreported as (delete from windlass.progress p where p.tenant_id = tenant and p.job_id = any (jobs)),
  unlogged as (delete from windlass.job_log o where o.tenant_id = tenant and o.job_id = any (jobs)),
  unasked as (delete from windlass.cancel_request c where c.tenant_id = tenant and c.job_id = any (jobs)),
  bodies as (delete from windlass.job b where b.tenant_id = tenant and b.id = any (jobs) returning b.ordering_key)
  select count(*), array_agg(distinct b.ordering_key) filter (where b.ordering_key is not null)
    into purged, ordering_keys from bodies b;
  perform windlass.unblock(tenant, needed);
  if ordering_keys is not null then
    -- The last of a key is gone, and nothing before it is waited for: the next one may begin the key anew. In the order of
    -- keys, and after the dedupe rows, as an enqueue takes them.
    delete from windlass.ordering o using (
        select x.ordering_key from windlass.ordering x
         where x.tenant_id = tenant and x.ordering_key = any (ordering_keys) and x.last_job_id = any (jobs)
           and not exists (select from windlass.dependency d where d.tenant_id = tenant and d.job_id = x.last_job_id)
         order by x.ordering_key for update) gone
     where o.tenant_id = tenant and o.ordering_key = gone.ordering_key;
  end if;
  return purged;
end
$$;

-- The jobs of one subject, in batches: call until it answers 0.
create or replace function windlass.purge_subject(tenant uuid, of_type text, of_id text, most integer default 1000) returns integer
language sql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
  select windlass.purge(tenant, array(
    select b.id from windlass.job b where b.tenant_id = tenant and b.subject_type is not distinct from of_type and b.subject_id = of_id limit most))
$$;
