-- Fails jobs whose deadline, or whose deadline to have begun, has passed while they waited. Running ones are left to
-- their own deadline, which stays written: a job that its worker gives back must not outlive it. Returns how many instants were dealt
-- with, whatever came of each: a full round means that there may be more.
-- A job that cannot be ended is set aside with the reason, and the others are ended. One that somebody else holds locked is passed over
-- and looked at again in the next round: an application's transaction may stay open for minutes.
-- A claim fails what is late by itself (see claim.sql), so jobs that nobody claims are what is left for the keeper.
-- Locks: where each job waits, then its instant, skipping locked ones. As it waits for neither, it is in no deadlock with a purge.
-- Tenants take turns (see tenants_in_turn).
-- Index: expiry_by_time to see who is due, expiry_of_tenant, read in its own order: another plan would lock all that is due and not only
-- a round of it.
create or replace function windlass.expire(most integer, out looked integer, out has_more boolean)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  at timestamptz := clock_timestamp();
  has_trouble boolean := exists (select from windlass.trouble t where t.duty = 'expire');
  tenants uuid[];
  due record;
begin
  perform windlass.need_read_committed();
  looked := 0;
  select count(*) >= most, array_agg(distinct x.tenant_id) into has_more, tenants
    from (select x.tenant_id from windlass.expiry x where x.expires_at <= at order by x.expires_at limit most) x;
  if has_more then
    tenants := windlass.tenants_in_turn('expiry', 'expires_at', at, most);
  end if;
  for due in
    select d.tenant_id, count(*) as n, array_agg(d.job_id) as jobs, array_agg(d.only_unstarted) as are_starts
      from unnest(tenants) t (id) cross join lateral (
             select x.tenant_id, x.job_id, x.only_unstarted from windlass.expiry x
              where x.tenant_id = t.id and x.expires_at <= at
                and not (has_trouble and windlass.is_set_aside('expire', x.tenant_id, x.job_id::text))
                and windlass.lock_to_expire(x.tenant_id, x.job_id, x.only_unstarted)
              order by x.expires_at limit greatest(1, most / cardinality(tenants)) for update skip locked) d
     group by d.tenant_id
  loop
    looked := looked + due.n;
    begin
      perform windlass.expire_these(due.tenant_id, due.jobs, due.are_starts);
    exception when others then
      perform windlass.raise_server_trouble(sqlstate, sqlerrm);
      for i in 1 .. cardinality(due.jobs) loop
        begin
          perform windlass.expire_these(due.tenant_id, array[due.jobs[i]], array[due.are_starts[i]]);
        exception when others then
          perform windlass.raise_server_trouble(sqlstate, sqlerrm);
          perform windlass.note_trouble('expire', due.tenant_id, due.jobs[i]::text, 'the job is past its deadline and cannot be ended: ' || sqlerrm);
        end;
      end loop;
    end;
    perform windlass.clear_trouble('expire', array_fill(due.tenant_id, array[cardinality(due.jobs)]), due.jobs, at);
  end loop;
  has_more := has_more and looked > 0;
end
$$;

-- Locks the place where a job waits, whichever it is, so that it stays there. False if somebody else holds it, or if the job runs and its
-- instant is still to be kept. True also for a job that has ended or begun in time: its instant is over.
create or replace function windlass.lock_to_expire(tenant uuid, job uuid, only_unstarted boolean) returns boolean
language plpgsql
as $$
#variable_conflict use_column
begin
  case windlass.state_of(tenant, job)
    when 'running' then
      return only_unstarted;
    when 'queued' then
      perform from windlass.line l where l.tenant_id = tenant and l.job_id = job for update skip locked;
      if not found then
        perform from windlass.job b join windlass.line l on l.lane = b.lane and l.seq = b.line_seq and l.tenant_id = b.tenant_id
          where b.tenant_id = tenant and b.id = job and b.id = any (l.ids) for update of l skip locked;
      end if;
      return found;
    when 'scheduled' then
      perform from windlass.deferred d where d.tenant_id = tenant and d.job_id = job for update skip locked;
      return found;
    when 'blocked' then
      perform from windlass.blocked b where b.tenant_id = tenant and b.job_id = job for update skip locked;
      return found;
    else
      return true;
  end case;
end
$$;

-- Fails these jobs as far as they wait and deletes their instants. Where each waits is locked (see lock_to_expire). are_starts: whether
-- the instant is the one by which the job must have begun.
create or replace function windlass.expire_these(tenant uuid, jobs uuid[], are_starts boolean[]) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  late uuid[] := array(select j.job from unnest(jobs, are_starts) j (job, is_start)
                        where not j.is_start or windlass.last_attempt(tenant, j.job) = 0);
begin
  perform windlass.unblock(tenant, windlass.finish_waiting(tenant, late, 2::smallint, 'expired'));
  delete from windlass.expiry e using unnest(jobs, are_starts) j (job, is_start)
   where e.tenant_id = tenant and e.job_id = j.job and e.only_unstarted = j.is_start;
end
$$;
