-- Ends one attempt of a pull worker: like settle, and deletes its lease. Returns settled, overruled (by a cancel
-- request) or lost (the fence is stale; nothing was changed).
-- Lock order: the lease, then the block; a reap uses the same order.
create or replace function windlass.pull_settle(tenant uuid, job uuid, with_attempt integer, with_token uuid, detail jsonb)
returns text
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  done record;
begin
  perform windlass.tenant_for(tenant);
  perform from windlass.pull_lease r where r.tenant_id = tenant and r.job_id = job for update;
  select s.settled, s.overruled into done
    from windlass.settle(array[tenant], array[job], array[with_attempt], array[with_token], array[null::integer], array[detail]) s;
  if done.settled is null then
    return 'lost';
  end if;
  delete from windlass.pull_lease r
   where r.tenant_id = tenant and r.job_id = job and r.attempt = with_attempt and r.token = with_token;
  return case when done.overruled is null then 'settled' else 'overruled' end;
end
$$;
