-- Ends one attempt of a pull worker: like settle, and deletes its lease. Returns settled, overruled (by a cancel
-- request) or lost (the fence is stale; nothing was changed).
-- Lock order: the tenant's row if jobs are chained and it has a quota, the lease, the block; a reap locks the last two
-- in the same order. Waits for no transaction that has locked the block, and 200 ms for other locks, and then fails
-- with lock_not_available: an application's transaction may stay open for minutes, and every call that waits holds one of
-- the server's connections, which the heartbeats of the tenant need.
create or replace function windlass.pull_settle(tenant uuid, job uuid, with_attempt integer, with_token uuid, detail jsonb)
returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
  done record;
begin
  perform windlass.tenant_for(tenant);
  if detail ? 'chain' then
    perform windlass.lock_quota(tenant);
  end if;
  perform from windlass.pull_lease r where r.tenant_id = tenant and r.job_id = job for update;
  select s.settled, s.overruled, s.busy into done
    from windlass.settle(array[tenant], array[job], array[with_attempt], array[with_token], array[null::integer], array[detail],
      skips_locked => true) s;
  if done.busy is not null then
    raise exception 'the job is locked by an open transaction' using errcode = 'lock_not_available';
  elsif done.settled is null then
    return 'lost';
  end if;
  delete from windlass.pull_lease r
   where r.tenant_id = tenant and r.job_id = job and r.attempt = with_attempt and r.token = with_token;
  return case when done.overruled is null then 'settled' else 'overruled' end;
end
$$;
