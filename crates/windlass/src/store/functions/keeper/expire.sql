-- Fails waiting jobs whose deadline or start deadline has passed. Running jobs are left to their own timeout, and their
-- instant is kept: a job that its worker releases must not outlive it. Returns the number of processed instants,
-- regardless of the result: a full round means that there may be more. A job that cannot be ended is recorded in
-- `problem`, and the others are ended. A job that another transaction has locked is skipped and tried again in the next
-- round: an application's transaction may stay open for minutes. If what depends on a job is locked, the job is tried
-- again after two seconds, and after three such jobs all of the tenant, because each waits for 200 ms. A claim fails
-- late jobs by itself (see claim.sql), so the keeper processes jobs that are never claimed. Tenants take turns (see
-- tenants_in_turn). Of each tenant, a round reads ten times as many rows as it processes, because each costs a call: a
-- transaction that has locked more of them delays the deadlines of its own tenant until it ends. Running jobs and rows that
-- are set aside are not counted.
-- Lock order: the row of each waiting job, or the final history row of one that has ended, then its instant, skipping
-- locked ones. It waits for neither, so it cannot
-- deadlock with a purge.
-- Index: expiry_by_time to find who is due, and expiry_of_tenant in its own order: another plan would lock everything
-- that is due and not only one round of it.
create or replace function windlass.expire(most integer default 500, out processed integer, out has_more boolean)
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
  has_problem boolean := exists (select from windlass.problem t where t.duty = 'expire');
  locked constant text := 'another transaction holds a lock that the end of the job needs: ';
  tenants uuid[];
  due record;
  waits integer;
  done uuid[];
begin
  perform windlass.check_read_committed();
  processed := 0;
  select count(*) >= most, array_agg(distinct x.tenant_id) into has_more, tenants
    from (select x.tenant_id from windlass.expiry x where x.expires_at <= at order by x.expires_at limit most) x;
  if has_more then
    tenants := windlass.tenants_in_turn('expiry', 'expires_at', at, most);
  end if;
  for due in
    select d.tenant_id, count(*) as n, array_agg(d.job_id) as jobs, array_agg(d.only_unstarted) as are_starts
      from (select n.id from unnest(tenants) n (id)
             where not (has_problem and windlass.is_set_aside('expire', n.id, n.id::text))) t
           cross join lateral (
             select x.tenant_id, x.job_id, x.only_unstarted
               from (select n.job_id, n.only_unstarted, n.expires_at from windlass.expiry n
                      where n.tenant_id = t.id and n.expires_at <= at
                        and not (has_problem and windlass.is_set_aside('expire', n.tenant_id, n.job_id::text))
                        and (n.only_unstarted or (select b.attempt from windlass.block_of(n.tenant_id, n.job_id) b) is null)
                      order by n.expires_at limit 10 * greatest(1, most / cardinality(tenants))) n
               join windlass.expiry x on x.tenant_id = t.id and x.job_id = n.job_id and x.only_unstarted = n.only_unstarted
              where windlass.lock_to_expire(t.id, n.job_id, n.only_unstarted)
              order by n.expires_at limit greatest(1, most / cardinality(tenants)) for update of x skip locked) d
     group by d.tenant_id
  loop
    processed := processed + due.n;
    begin
      perform windlass.expire_these(due.tenant_id, due.jobs, due.are_starts);
      done := due.jobs || due.tenant_id;
    exception when others then
      perform windlass.raise_server_problem(sqlstate, sqlerrm);
      waits := 0;
      done := '{}';
      for i in 1 .. cardinality(due.jobs) loop
        begin
          perform windlass.expire_these(due.tenant_id, array[due.jobs[i]], array[due.are_starts[i]]);
          done := done || due.jobs[i];
        exception when lock_not_available then
          waits := waits + 1;
          perform windlass.note_locked('expire', due.tenant_id, due.jobs[i]::text, locked || sqlerrm);
        when others then
          perform windlass.raise_server_problem(sqlstate, sqlerrm);
          perform windlass.note_problem('expire', due.tenant_id, due.jobs[i]::text,
            'the job is past its deadline and cannot be failed: ' || sqlerrm);
        end;
        if waits = 3 then
          perform windlass.note_locked('expire', due.tenant_id, due.tenant_id::text, locked || 'too many jobs of the tenant are waiting');
          exit;
        end if;
      end loop;
    end;
    perform windlass.clear_problem('expire', array_fill(due.tenant_id, array[cardinality(done)]), done, at);
  end loop;
  has_more := has_more and processed > 0;
end
$$;

-- Whether the instant can be processed: the job is waiting and its row is locked now, or it has ended or started in
-- time, and then its instant is obsolete. A job that has ended stays so until the commit, because its final history row is
-- locked. False if another transaction has locked the row (such as a retry), or if the job is running and its instant must
-- be kept.
create or replace function windlass.lock_to_expire(tenant uuid, job uuid, only_unstarted boolean) returns boolean
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  state constant text := windlass.state_of(tenant, job);
begin
  if state = 'running' then
    return only_unstarted;
  elsif state in ('queued', 'scheduled', 'blocked') then
    return windlass.lock_waiting(tenant, job);
  elsif state is null then
    return true; -- it was purged
  end if;
  perform from windlass.history h where h.tenant_id = tenant and h.job_id = job and h.job_status is not null for update skip locked;
  return found;
end
$$;

-- Locks the row of a waiting job, in whichever table, so that it does not move. False if the job is not waiting, or if
-- another transaction has locked its row.
create or replace function windlass.lock_waiting(tenant uuid, job uuid) returns boolean
language plpgsql
set jit = off
as $$
#variable_conflict use_column
begin
  case windlass.state_of(tenant, job)
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
      return false;
  end case;
end
$$;

-- Fails those of these jobs that are waiting and deletes their instants. are_starts: whether the instant is a start
-- deadline. Only jobs whose row is locked are failed, and whether one has started is read after that, in a statement of
-- its own: a job that was running when its instant was found may have been released since, and its first attempt is
-- written to history only then.
create or replace function windlass.expire_these(tenant uuid, jobs uuid[], are_starts boolean[]) returns void
language plpgsql
as $$
#variable_conflict use_column
declare
  mine uuid[] := array(select j from unnest(jobs) j where windlass.lock_waiting(tenant, j));
  late uuid[];
begin
  late := array(select j.job from unnest(jobs, are_starts) j (job, is_start)
                 where j.job = any (mine) and (not j.is_start or windlass.last_attempt(tenant, j.job) = 0));
  perform windlass.unblock(tenant, windlass.finish_waiting(tenant, late, windlass.state_code('failed'), 'expired'));
  delete from windlass.expiry e using unnest(jobs, are_starts) j (job, is_start)
   where e.tenant_id = tenant and e.job_id = j.job and e.only_unstarted = j.is_start;
end
$$;
